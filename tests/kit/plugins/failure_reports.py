"""Adds diagnostics to the report of a failed test.

These are the objects, Events and pods in the namespace of the test, and the trace of its fault proxy. The report shows
the end of each; `build/failures/TEST` has everything with the logs of the control plane.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kit.faults.proxy import FaultProxy
from quintet.local.cluster import Cluster

FOLDER = Path("build/failures")
SHOWN_LINES = 60
PATIENCE = 20
LOOKS = {
    "objects": (
        "get",
        "quintet,deployments,statefulsets,jobs,pods,services,configmaps,persistentvolumeclaims",
    ),
    "events": ("get", "events", "--sort-by=.metadata.creationTimestamp"),
    "custom resources": ("get", "quintet", "-o", "yaml"),
}


def describe(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add sections to the report of a test that failed before its fixtures were torn down."""
    if not report.failed or report.when == "teardown":
        return
    used: dict[str, Any] = getattr(item, "funcargs", {})
    found = {
        f"proxy {name}": str(value.trace) for name, value in used.items() if isinstance(value, FaultProxy)
    }
    clusters = [value for value in used.values() if isinstance(value, Cluster)]
    if clusters and isinstance(used.get("namespace"), str):
        found |= {title: _kubectl(clusters[0], used["namespace"], look) for title, look in LOOKS.items()}
    if not found:
        return
    folder = FOLDER / re.sub(r"\W+", "-", item.nodeid)[-120:].strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    for title, text in found.items():
        (folder / f"{title.replace(' ', '-')}.txt").write_text(text)
        report.sections.append((f"{title} (all of it in {folder})", _end(text)))
    for cluster in clusters:
        for log in cluster.directory.rglob("*.log"):
            shutil.copy(log, folder)


def _kubectl(cluster: Cluster, namespace: str, arguments: tuple[str, ...]) -> str:
    command = [str(cluster.programs / "kubectl"), f"--namespace={namespace}", *arguments]
    try:
        answer = subprocess.run(
            command, env=cluster.environment, timeout=PATIENCE, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return f"kubectl {' '.join(arguments)} did not answer within {PATIENCE} s"
    return answer.stdout + answer.stderr


def _end(text: str) -> str:
    lines = text.splitlines()
    left_out = [f"({len(lines) - SHOWN_LINES} lines before these)"] if len(lines) > SHOWN_LINES else []
    return "\n".join([*left_out, *lines[-SHOWN_LINES:]])
