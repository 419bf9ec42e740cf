"""Drivers: how each backend type is probed, and what runs for it.

A new type is an entry in the catalog and a module here, listed in `DRIVERS`.
"""

from quintet.controllers.eventingbackend.drivers.beb import BebDriver
from quintet.controllers.eventingbackend.drivers.driver import Driver, Tools
from quintet.controllers.eventingbackend.drivers.nats import NatsDriver

DRIVERS: tuple[type[Driver], ...] = (NatsDriver, BebDriver)


def drivers(tools: Tools) -> dict[str, Driver]:
    """Return all drivers by backend type."""
    return {kind.backend.name: kind(tools) for kind in DRIVERS}


__all__ = ["DRIVERS", "Driver", "Tools", "drivers"]
