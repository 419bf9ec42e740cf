"""The command doctor: whether this cluster can be used, check by check, with the next step.

Called by `main`. The checks here need the ones before them, so the first failure ends the examination;
what is only worth knowing is a warning. Then `diagnosis` looks at what an installation needs, or at
the one that is there.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from quintet.apis.meta import Resource, Struct
from quintet.cli import output
from quintet.cli.diagnosis.findings import FAILED, OK, UNKNOWN, WARNING, Finding, worst
from quintet.cli.explain import explain
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.errors import ConfigError, KubeError
from quintet.kube.transport import Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quintet.kube.config import ClusterConfig

OLDEST_WORKING = (1, 32)
OLDEST_SUPPORTED = (1, 35)
NEWEST_SUPPORTED = (1, 37)

MARKS = {OK: ("✓", "green"), WARNING: ("!", "yellow"), FAILED: ("✗", "red"), UNKNOWN: ("?", "blue")}

SELF_REVIEW = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
# What whoever installs Quintet has to create.
INSTALLED = (
    Resource("", "v1", "Namespace", "namespaces", False),
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
    ),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        False,
    ),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        False,
    ),
    Resource("apps", "v1", "Deployment", "deployments"),
)


class UserInfo(Struct, frozen=True):
    """A name and its groups, as the server knows them."""

    username: str = ""
    groups: tuple[str, ...] = ()


class SelfReviewStatus(Struct, frozen=True):
    """The answer of a SelfSubjectReview."""

    user_info: UserInfo = UserInfo()


class SelfReview(Struct, frozen=True):
    """Who the server takes us for."""

    status: SelfReviewStatus = SelfReviewStatus()


class AccessStatus(Struct, frozen=True):
    """The answer of a SelfSubjectAccessReview."""

    allowed: bool = False


class AccessReview(Struct, frozen=True):
    """Whether we may do something."""

    status: AccessStatus = AccessStatus()


@click.command(epilog="Exit codes: 0 all is well, 1 something is wrong, 2 it was called wrongly.")
@click.option("--pre", is_flag=True, help="Only what has to be so before an installation.")
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig to use instead of the usual one.")
@click.option("--context", metavar="NAME", help="The context to use instead of the current one.")
@click.option(
    "--flavour",
    type=click.Choice(["quintet", "kiagnose"]),
    default="quintet",
    show_default=True,
    help="With --pre: what is to be installed.",
)
@click.option(
    "--operator-namespace", metavar="NAME", help="With --pre: where to; default: that of the flavour."
)
@click.option(
    "-o", "output_format", type=click.Choice(["json"]), help="Print the answer for a program to read."
)
@click.pass_context
def doctor(
    ctx: click.Context,
    pre: bool,
    kubeconfig: str | None,
    context: str | None,
    flavour: str,
    operator_namespace: str | None,
    output_format: str | None,
) -> None:
    """Check the cluster, what you may do there, and whether Quintet works in it.

    With --pre, before an installation: whether the server has what it takes, whether you may install, and
    whether something is in the way. Nothing is written: what has to be tried is sent as a dry run.
    """
    findings = asyncio.run(examined(kubeconfig, context, (flavour, operator_namespace), pre=pre))
    verdict = worst(findings)
    if output_format == "json":
        output.result_json({"status": verdict, "checks": [asdict(each) for each in findings]})
    else:
        _show(findings, pre=pre)
    ctx.exit(1 if verdict == FAILED else 0)


async def examined(
    kubeconfig: str | None, context: str | None, place: tuple[str, str | None], *, pre: bool
) -> list[Finding]:
    """Everything that was found. `place`: flavour and namespace of the operator."""
    async with AsyncExitStack() as stack:
        examination = _Examination(kubeconfig, context, stack, pre=pre)
        findings: list[Finding] = []
        try:
            async for finding in examination.findings():
                findings.append(finding)  # noqa: PERF401 - those before a failure count too
            # They come with every controller: who cannot even connect need not wait for these.
            if worst(findings) != FAILED:
                findings += [finding async for finding in examination.installation(place)]
        except KubeError as error:
            findings.append(Finding(examination.group, examination.check, FAILED, *explain(error)))
    return findings


class _Examination:
    """The checks, in the order in which they depend on each other."""

    def __init__(
        self, kubeconfig: str | None, context: str | None, stack: AsyncExitStack, *, pre: bool
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._stack = stack
        self._pre = pre
        self._connected: tuple[Client, str] | None = None
        self.group = self.check = ""

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield what each check finds; an error is the finding of the check that it came from."""
        self._begin("configuration", "kubeconfig")
        found = config.load(self._kubeconfig, self._context)
        found.ssl_context()
        yield self._found(OK, f"{found.source} can be read")
        self._begin("configuration", "credentials")
        if problem := found.expiry_problem():
            raise ConfigError(problem, "fetch new credentials for this cluster")
        yield self._found(OK, "the credentials are not out of date")

        self._begin("server", "connection")
        transport = Transport(found, timeout=15.0, connect_timeout=5.0)
        client = Client(await self._stack.enter_async_context(transport))
        self._connected = client, found.namespace
        version = await client.version()
        yield self._judge_trust(found)
        self._begin("server", "version")
        yield self._found(*judge_version(version.git_version))

        self._begin("identity", "user")
        review = await client.create(SELF_REVIEW, _question(SELF_REVIEW), SelfReview)
        user = review.status.user_info
        groups = ", ".join(user.groups) or "no group"
        yield self._found(OK, f"you are {user.username} ({groups})")

        self._begin("permissions", "access")
        for finding in await self._permissions(client, found, user.username):
            yield finding

    def installation(self, place: tuple[str, str | None]) -> AsyncIterator[Finding]:
        """Look at what an installation needs, or at the one that is there."""
        from quintet.cli.diagnosis.looking import Looking
        from quintet.clock import SystemClock
        from quintet.manifests.installation import FLAVOURS, in_namespace

        assert self._connected is not None, "there is a client once all checks before went well"
        client, namespace = self._connected
        self._begin("installation", "all")
        looking = Looking(client, SystemClock(), in_namespace(FLAVOURS[place[0]], place[1]), namespace)
        return looking.before() if self._pre else looking.after()

    def _begin(self, group: str, check: str) -> None:
        self.group, self.check = group, check

    def _found(self, status: str, message: str, next_step: str = "") -> Finding:
        return Finding(self.group, self.check, status, message, next_step)

    def _judge_trust(self, found: ClusterConfig) -> Finding:
        if found.server.startswith("https:") and not found.insecure:
            return self._found(OK, f"{found.server} answers and is trusted")
        return self._found(
            WARNING,
            f"{found.server} answers, but nothing proves that it is the right server",
            "use https and the certificate-authority of the cluster",
        )

    async def _permissions(self, client: Client, found: ClusterConfig, username: str) -> list[Finding]:
        """Nobody needs all rights: only somebody who can neither install nor use it has a problem."""
        # They come with every controller: whoever asks for help need not wait for these.
        from quintet.components import CUSTOM_RESOURCES

        own = tuple(each.resource for each in CUSTOM_RESOURCES)
        denied_install, denied_use = await asyncio.gather(
            _denied(client, INSTALLED, ""), _denied(client, own, found.namespace)
        )
        if len(denied_install) == len(INSTALLED) and len(denied_use) == len(own):
            return [
                self._found(
                    FAILED,
                    f"no permission: {username} may neither install Quintet "
                    f"nor use it in namespace {found.namespace}",
                    "ask an administrator of the cluster for a role",
                )
            ]
        hint = "have an administrator of the cluster install it"
        findings = [self._judge_access("install", "install Quintet", denied_install, hint)]
        if not self._pre:
            what = f"use it in namespace {found.namespace}"
            hint = "ask an administrator of the cluster for a role in that namespace"
            findings.append(self._judge_access("use", what, denied_use, hint))
        return findings

    def _judge_access(self, check: str, what: str, denied: list[str], hint: str) -> Finding:
        self._begin("permissions", check)
        if not denied:
            return self._found(OK, f"you may {what}")
        status = FAILED if self._pre else WARNING
        return self._found(status, f"you may not {what}: creating {', '.join(denied)} is denied", hint)


def judge_version(text: str) -> tuple[str, str, str]:
    """Return status, message and next step for a version as the server writes it."""
    numbers = re.match(r"v(\d+)\.(\d+)", text)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    supported = f"1.{OLDEST_SUPPORTED[1]} to 1.{NEWEST_SUPPORTED[1]}"
    upgrade = f"upgrade the cluster to 1.{OLDEST_SUPPORTED[1]} or later"
    if version > NEWEST_SUPPORTED:
        return (
            WARNING,
            f"Kubernetes {text} is newer than those tested ({supported})",
            "look for a newer Quintet",
        )
    if version >= OLDEST_SUPPORTED:
        return OK, f"Kubernetes {text} is supported", ""
    if version >= OLDEST_WORKING:
        return WARNING, f"Kubernetes {text} works but is older than those supported ({supported})", upgrade
    return FAILED, f"Kubernetes {text or 'of an unknown version'} is too old", upgrade


async def _denied(client: Client, resources: tuple[Resource, ...], namespace: str) -> list[str]:
    """Name those of the resources that we may not create."""

    async def allowed(resource: Resource) -> bool:
        wanted = {"verb": "create", "group": resource.group, "resource": resource.plural}
        attributes = wanted | ({"namespace": namespace} if resource.namespaced and namespace else {})
        body = _question(ACCESS_REVIEW, {"resourceAttributes": attributes})
        return (await client.create(ACCESS_REVIEW, body, AccessReview)).status.allowed

    answers = await asyncio.gather(*(allowed(resource) for resource in resources))
    return [resource.qualified for resource, yes in zip(resources, answers, strict=True) if not yes]


def _question(resource: Resource, spec: dict[str, object] | None = None) -> dict[str, object]:
    body: dict[str, object] = {"apiVersion": resource.api_version, "kind": resource.kind}
    return body | ({"spec": spec} if spec else {})


def _show(findings: list[Finding], *, pre: bool) -> None:
    colour = False if os.environ.get("NO_COLOR") else None  # None = on a terminal only
    decorated = _can_print("".join(mark for mark, _ in MARKS.values()))
    for group, members in groupby(findings, key=lambda each: each.group):
        click.echo(click.style(group, bold=True), color=colour)
        for each in members:
            mark, shade = MARKS[each.status]
            word = f"{mark} {each.status:<7}" if decorated else f"{each.status:<7}"
            click.echo(f"  {click.style(word, fg=shade)} {each.check}: {each.message}", color=colour)
            if each.next:
                click.echo(f"    next: {each.next}", color=colour)
    click.echo(_verdict(findings, pre=pre))


def _verdict(findings: list[Finding], *, pre: bool) -> str:
    failed = {each.group for each in findings if each.status == FAILED}
    if not failed:
        return "Quintet can be installed here" if pre else "all is well"
    if failed <= {"installation", "webhooks"}:
        return "this cluster can be used, but Quintet does not work here yet"
    return "Quintet cannot be installed here yet" if pre else "this cluster cannot be used yet"


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
