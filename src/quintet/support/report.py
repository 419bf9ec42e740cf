"""Creates a support bundle: everything that is read from a cluster, the checks of doctor, and versions."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from quintet import __version__
from quintet.inspect.session import connect
from quintet.install.doctor.examination import run_checks
from quintet.support.gather import Collector

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.inspect.session import Target
    from quintet.support.bundle import BundleContent


async def collect_report(
    target: Target, operator_namespace: str, report: Callable[[str], None]
) -> tuple[BundleContent, dict[str, str]]:
    """Return the content of a support bundle, not redacted yet, and the facts for its index."""
    async with connect(target) as session:
        server = await session.client.version()
        report("reading the installation, logs, objects and Events")
        content = await Collector(session.client, operator_namespace, target.namespace or "").collect()
    report("running the checks of `quintet doctor`")
    findings = await run_checks(target, ("quintet", operator_namespace), pre=False)
    content.texts["doctor.txt"] = "".join(
        f"{each.group}: {each.status}: {each.check}: {each.message}"
        f"{f' (next: {each.next})' if each.next else ''}\n"
        for each in findings
    )
    facts = {
        "Command": f"quintet {__version__}, Python {platform.python_version()}, {platform.system()}",
        "Server": f"Kubernetes {server.git_version}",
        "Objects of": target.namespace or "all namespaces",
    }
    content.texts["versions.txt"] = "".join(f"{name}: {value}\n" for name, value in facts.items())
    content.about = {
        "versions.txt": "the versions of the command and of the server",
        "doctor.txt": "the output of `quintet doctor`",
        **content.about,
    }
    return content, facts
