"""Runs the checks of doctor: kubeconfig, connection, version, identity, permissions, then the installation.

Each check needs those before it, so the first failure ends the examination.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from quintet.apis.meta import Resource, Struct
from quintet.inspect.error_messages import describe_error
from quintet.install.doctor.findings import FAILED, OK, WARNING, Finding, overall_status
from quintet.kube.client import Client
from quintet.kube.errors import ConfigError, KubeError
from quintet.kube.transport import Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quintet.inspect.session import Target
    from quintet.kube.config import ClusterConfig

OLDEST_WORKING = (1, 32)
OLDEST_SUPPORTED = (1, 35)
NEWEST_SUPPORTED = (1, 37)

SELF_REVIEW = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
# Whoever installs Quintet must be allowed to create these.
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
    """A user name and its groups."""

    username: str = ""
    groups: tuple[str, ...] = ()


class SelfReviewStatus(Struct, frozen=True):
    """The status of a SelfSubjectReview."""

    user_info: UserInfo = UserInfo()


class SelfReview(Struct, frozen=True):
    """A SelfSubjectReview."""

    status: SelfReviewStatus = SelfReviewStatus()


class AccessStatus(Struct, frozen=True):
    """The status of a SelfSubjectAccessReview."""

    allowed: bool = False


class AccessReview(Struct, frozen=True):
    """A SelfSubjectAccessReview."""

    status: AccessStatus = AccessStatus()


async def run_checks(target: Target, place: tuple[str, str | None], *, pre: bool) -> list[Finding]:
    """Run all checks and return their findings. `place`: flavour and namespace of the operator."""
    async with AsyncExitStack() as stack:
        examination = _Examination(target, stack, pre=pre)
        findings: list[Finding] = []
        try:
            async for finding in examination.connection_checks():
                findings.append(finding)  # noqa: PERF401 - keep the findings before a failure
            # These import every controller, which is not needed if the connection failed.
            if overall_status(findings) != FAILED:
                findings += [finding async for finding in examination.installation_checks(place)]
        except KubeError as error:
            findings.append(Finding(examination.group, examination.check, FAILED, *describe_error(error)))
    return findings


class _Examination:
    """The checks, in the order of their dependencies."""

    def __init__(self, target: Target, stack: AsyncExitStack, *, pre: bool) -> None:
        self._target = target
        self._stack = stack
        self._pre = pre
        self._connected: tuple[Client, str] | None = None
        self.group = self.check = ""

    async def connection_checks(self) -> AsyncIterator[Finding]:
        """Yield the finding of each check; an error belongs to the check in `group` and `check`."""
        self._begin("configuration", "kubeconfig")
        found = self._target.load()
        found.ssl_context()
        yield self._finding(OK, f"{found.source} is readable")
        self._begin("configuration", "credentials")
        if problem := found.expiry_problem():
            raise ConfigError(problem, "get new credentials for this cluster")
        yield self._finding(OK, "the credentials have not expired")

        self._begin("server", "connection")
        transport = Transport(found, timeout=15.0, connect_timeout=5.0)
        client = Client(await self._stack.enter_async_context(transport))
        self._connected = client, found.namespace
        version = await client.version()
        yield self._check_trust(found)
        self._begin("server", "version")
        yield self._finding(*check_version(version.git_version))

        self._begin("identity", "user")
        review = await client.create(SELF_REVIEW, _review(SELF_REVIEW), SelfReview)
        user = review.status.user_info
        groups = ", ".join(user.groups) or "no group"
        yield self._finding(OK, f"you are {user.username} ({groups})")

        self._begin("permissions", "access")
        for finding in await self._permissions(client, found, user.username):
            yield finding

    def installation_checks(self, place: tuple[str, str | None]) -> AsyncIterator[Finding]:
        """Return the checks before an installation, or of the existing one."""
        from quintet.clock import SystemClock
        from quintet.install.doctor.checks import ClusterChecks
        from quintet.manifests.installation import FLAVOURS, in_namespace

        assert self._connected is not None, "the connection checks have created a client"
        client, namespace = self._connected
        self._begin("installation", "all")
        looking = ClusterChecks(client, SystemClock(), in_namespace(FLAVOURS[place[0]], place[1]), namespace)
        return looking.preflight() if self._pre else looking.health()

    def _begin(self, group: str, check: str) -> None:
        self.group, self.check = group, check

    def _finding(self, status: str, message: str, next_step: str = "") -> Finding:
        return Finding(self.group, self.check, status, message, next_step)

    def _check_trust(self, found: ClusterConfig) -> Finding:
        if found.server.startswith("https:") and not found.insecure:
            return self._finding(OK, f"{found.server} responds and is trusted")
        return self._finding(
            WARNING,
            f"{found.server} responds, but its identity is not verified",
            "use https and the certificate-authority of the cluster",
        )

    async def _permissions(self, client: Client, found: ClusterConfig, username: str) -> list[Finding]:
        """Check permissions; it is a failure only if the user can neither install nor use Quintet."""
        # Imports every controller, which `--help` does not need.
        from quintet.components import CUSTOM_RESOURCES

        own = tuple(each.resource for each in CUSTOM_RESOURCES)
        denied_install, denied_use = await asyncio.gather(
            _denied_resources(client, INSTALLED, ""), _denied_resources(client, own, found.namespace)
        )
        if len(denied_install) == len(INSTALLED) and len(denied_use) == len(own):
            return [
                self._finding(
                    FAILED,
                    f"no permission: {username} may neither install Quintet "
                    f"nor use it in namespace {found.namespace}",
                    "ask a cluster administrator for a role",
                )
            ]
        hint = "ask a cluster administrator to install it"
        findings = [self._check_access("install", "install Quintet", denied_install, hint)]
        if not self._pre:
            what = f"use it in namespace {found.namespace}"
            hint = "ask a cluster administrator for a role in that namespace"
            findings.append(self._check_access("use", what, denied_use, hint))
        return findings

    def _check_access(self, check: str, what: str, denied: list[str], hint: str) -> Finding:
        self._begin("permissions", check)
        if not denied:
            return self._finding(OK, f"you may {what}")
        status = FAILED if self._pre else WARNING
        return self._finding(status, f"you may not {what}: creating {', '.join(denied)} is denied", hint)


def check_version(text: str) -> tuple[str, str, str]:
    """Return status, message and next step for a version as the server writes it."""
    numbers = re.match(r"v(\d+)\.(\d+)", text)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    supported = f"1.{OLDEST_SUPPORTED[1]} to 1.{NEWEST_SUPPORTED[1]}"
    upgrade = f"upgrade the cluster to 1.{OLDEST_SUPPORTED[1]} or later"
    if version > NEWEST_SUPPORTED:
        return (
            WARNING,
            f"Kubernetes {text} is newer than the tested versions ({supported})",
            "use a newer version of Quintet",
        )
    if version >= OLDEST_SUPPORTED:
        return OK, f"Kubernetes {text} is supported", ""
    if version >= OLDEST_WORKING:
        return (
            WARNING,
            f"Kubernetes {text} works but is older than the supported versions ({supported})",
            upgrade,
        )
    return FAILED, f"Kubernetes {text or 'of an unknown version'} is too old", upgrade


async def _denied_resources(client: Client, resources: tuple[Resource, ...], namespace: str) -> list[str]:
    """Return the names of the resources that the user may not create."""

    async def is_allowed(resource: Resource) -> bool:
        wanted = {"verb": "create", "group": resource.group, "resource": resource.plural}
        attributes = wanted | ({"namespace": namespace} if resource.namespaced and namespace else {})
        body = _review(ACCESS_REVIEW, {"resourceAttributes": attributes})
        return (await client.create(ACCESS_REVIEW, body, AccessReview)).status.allowed

    answers = await asyncio.gather(*(is_allowed(resource) for resource in resources))
    return [resource.qualified for resource, yes in zip(resources, answers, strict=True) if not yes]


def _review(resource: Resource, spec: dict[str, object] | None = None) -> dict[str, object]:
    body: dict[str, object] = {"apiVersion": resource.api_version, "kind": resource.kind}
    return body | ({"spec": spec} if spec else {})
