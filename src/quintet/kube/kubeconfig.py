"""The kubeconfig file format.

Several files are merged as kubectl does it: the first file that defines a cluster, user or context wins.
Unknown fields are ignored.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from quintet.kube.errors import ConfigError

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class _Section(msgspec.Struct, rename="kebab", omit_defaults=True, frozen=True):
    """One mapping of a kubeconfig; a `null` value counts as absent."""


class ClusterSection(_Section, frozen=True):
    """The server and its CA."""

    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class Variable(_Section, frozen=True):
    """One environment variable of a plugin."""

    name: str
    value: str


class ExecSection(_Section, frozen=True, rename="camel"):
    """A credential plugin."""

    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    api_version: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None


class UserSection(_Section, frozen=True):
    """The credentials of a user."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    exec: ExecSection | None = None
    auth_provider: Any = None
    as_: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None


class ContextSection(_Section, frozen=True):
    """A cluster, a user and a default namespace."""

    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(_Section, frozen=True):
    name: str
    cluster: ClusterSection | None = None


class _NamedUser(_Section, frozen=True):
    name: str
    user: UserSection | None = None


class _NamedContext(_Section, frozen=True):
    name: str
    context: ContextSection | None = None


class _File(_Section, frozen=True):
    current_context: str | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None


class Kubeconfig:
    """The merged content of one or several files."""

    def __init__(self, files: list[Path]) -> None:
        self.source = os.pathsep.join(str(path) for path in files)
        self._current = ""
        self._contexts: dict[str, ContextSection] = {}
        self._clusters: dict[str, ClusterSection] = {}
        self._users: dict[str, UserSection] = {}
        found = [(path, content) for path in files if (content := _read(path)) is not None]
        if not found:
            raise ConfigError(
                f"kubeconfig {self.source} does not exist", "check the path, or KUBECONFIG if it is set"
            )
        for path, content in found:
            self._merge(content, path.parent)

    def _merge(self, content: _File, directory: Path) -> None:
        self._current = self._current or content.current_context or ""
        for context in content.contexts or ():
            self._contexts.setdefault(context.name, context.context or ContextSection())
        for cluster in content.clusters or ():
            section = cluster.cluster or ClusterSection()
            self._clusters.setdefault(
                cluster.name, _resolve_paths(directory, section, "certificate_authority")
            )
        for user in content.users or ():
            self._users.setdefault(user.name, _resolve_user_paths(directory, user.user or UserSection()))

    @property
    def current(self) -> str:
        """The name of the current context; empty if there is none."""
        return self._current

    def context(self, name: str | None) -> ContextSection:
        """Return the context with this name; without a name, the current context."""
        chosen = name or self._current
        if not chosen:
            raise ConfigError(
                f"{self.source}: no current context",
                f"choose one with --context: {_list_names(self._contexts)}",
            )
        return self._find(self._contexts, chosen, "context")

    def cluster(self, context: ContextSection) -> ClusterSection:
        """Return the cluster of a context."""
        return self._find(self._clusters, context.cluster or "", "cluster")

    def user(self, context: ContextSection) -> UserSection:
        """Return the user of a context; empty credentials if it has none."""
        return self._find(self._users, context.user, "user") if context.user else UserSection()

    def _find(self, sections: Mapping[str, T], name: str, what: str) -> T:
        try:
            return sections[name]
        except KeyError:
            raise ConfigError(
                f"{self.source}: there is no {what} {name!r}", f"choose one of: {_list_names(sections)}"
            ) from None


def _list_names(sections: Iterable[str]) -> str:
    return ", ".join(sorted(sections)) or "none"


def _read(path: Path) -> _File | None:
    """Return the content of a file; None if it does not exist, which `$KUBECONFIG` permits."""
    import yaml

    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot read kubeconfig {path} ({error.strerror})", "check the path and its permissions"
        ) from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        raise ConfigError(
            f"kubeconfig {path} is not valid YAML{line}", "fix the file or download it again"
        ) from error
    try:
        return msgspec.convert(content if content is not None else {}, type=_File)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path} is not a valid kubeconfig ({error})", "fix the file or download it again"
        ) from error


def _resolve_paths(directory: Path, section: S, *names: str) -> S:
    """Return a section with absolute paths; paths in a kubeconfig are relative to the file."""
    paths = {name: str(directory / path) for name in names if (path := getattr(section, name))}
    return msgspec.structs.replace(section, **paths)


def _resolve_user_paths(directory: Path, user: UserSection) -> UserSection:
    # A command without a slash is looked up in $PATH.
    if user.exec and os.sep in (user.exec.command or ""):
        user = msgspec.structs.replace(user, exec=_resolve_paths(directory, user.exec, "command"))
    return _resolve_paths(directory, user, "client_certificate", "client_key", "token_file")
