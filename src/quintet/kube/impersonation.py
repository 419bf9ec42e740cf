"""The user that requests impersonate, as in `kubectl --as` or `as` in a kubeconfig.

The command line imports this module at its start, so this imports little.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImpersonatedUser:
    """The user that requests impersonate; without a name, nobody."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    def headers(self, source: str) -> tuple[tuple[str, str], ...]:
        """Return the headers of impersonation; `source` is where the user was given, for messages."""
        from urllib.parse import quote

        from quintet.kube.errors import ConfigError

        headers = [("Impersonate-Uid", self.uid)] if self.uid else []
        headers += [("Impersonate-Group", group) for group in self.groups]
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for key, value in self.extra]
        if not self.name:
            if headers:
                # Ignoring them would use more permissions than the user intended.
                raise ConfigError(
                    f"{source}: impersonated groups, UID and extra values need `as`, the user",
                    "name the user, too",
                )
            return ()
        headers.insert(0, ("Impersonate-User", self.name))
        for _, value in headers:
            if not value.isprintable():
                raise ConfigError(
                    f"{source}: {value!r} cannot be impersonated", "remove the control characters"
                )
        return tuple(headers)
