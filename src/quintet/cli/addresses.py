"""Addresses on the command line. Called by every command that serves something."""

from __future__ import annotations

import click


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT; without a host it is every address of the machine, as a pod needs it."""

    name = "host:port"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Check that it is one."""
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8081 or :8081", param, ctx)
        return host.strip("[]"), int(port)
