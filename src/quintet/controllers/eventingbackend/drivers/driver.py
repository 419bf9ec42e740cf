"""Interface of drivers, and their dependencies."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from quintet.apis.eventingbackend import BackendType, Effective, EventingBackend
from quintet.apis.eventingbackend.addresses import NetworkLimits
from quintet.clock import Clock
from quintet.controllers.eventingbackend.decide.desired import DataPlane
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult
from quintet.controllers.eventingbackend.drivers.secrets import SecretReader
from quintet.controllers.eventingbackend.migration import StreamLocation
from quintet.eventing.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Tools:
    """Dependencies of drivers."""

    clock: Clock
    sessions: Sessions
    secrets: SecretReader
    limits: NetworkLimits
    """Addresses that users may have the operator connect to."""


class Driver(ABC):
    """Driver of one backend type."""

    backend: ClassVar[BackendType]

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @staticmethod
    @abstractmethod
    def data_plane(backend: EventingBackend, config: Effective) -> DataPlane:
        """Return what to run for a configuration; no I/O."""

    @abstractmethod
    async def probe(
        self, backend: EventingBackend, config: Effective, old: StreamLocation | None
    ) -> ProbeResult:
        """Probe the backend stage by stage and correct what can be corrected.

        Keeps the subjects of the location where pods still work.
        """

    async def release(self, backend: EventingBackend) -> None:
        """Release the resources of a deleted backend."""
        await self._tools.sessions.keep_only(backend.key, ())
