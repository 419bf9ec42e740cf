"""Types of option values."""

from __future__ import annotations

import re
from typing import Any

import click

from quintet.apis.text import parse_number

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT; without a host, all addresses of the machine."""

    name = "host:port"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        number = parse_number(port)
        if not colon or number is None or number > 65535:
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8081 or :8081", param, ctx)
        return host.strip("[]"), number


class SinkAddress(click.ParamType[tuple[str, tuple[str, int]]]):
    """HOST=ADDRESS:PORT: the address to connect to for a host."""

    name = "host=address:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, int]]:
        if isinstance(value, tuple):
            return value
        host, equals, place = str(value).partition("=")
        if not host or not equals:
            self.fail(f"{value!r} is not HOST=ADDRESS:PORT", param, ctx)
        return host, Address().convert(place, param, ctx)


class Networks(click.ParamType[tuple[str, ...]]):
    """A list of networks or addresses, separated by commas."""

    name = "networks"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        networks = tuple(part.strip() for part in value.split(",") if part.strip())
        from quintet.apis.eventingbackend.addresses import NetworkLimits

        try:
            NetworkLimits.of(refused=networks)
        except ValueError as error:
            self.fail(f"{error}; write networks such as 10.0.0.0/8,fd00::/8", param, ctx)
        return networks


class NamespaceNames(click.ParamType[tuple[str, ...]]):
    """A list of namespaces, separated by commas."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        for name in names:
            if not _NAMESPACE.fullmatch(name):
                self.fail(
                    f"{name!r} is not the name of a namespace; write names such as shop,team-a", param, ctx
                )
        return names


class ControllerNames(click.ParamType[tuple[str, ...]]):
    """A list of controllers, separated by commas."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        from quintet.components import COMPONENTS

        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        for name in names:
            if name not in COMPONENTS:
                self.fail(f"unknown controller {name!r}; choose from: {', '.join(COMPONENTS)}", param, ctx)
        return names
