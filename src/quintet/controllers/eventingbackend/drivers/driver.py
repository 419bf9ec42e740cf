"""What the controller expects of a driver, and what a driver works with."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from quintet.apis.eventingbackend import BackendType, Effective, EventingBackend
from quintet.apis.eventingbackend.addresses import Limits
from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.eventingbackend.decide.desired import DataPlane
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult
from quintet.controllers.eventingbackend.drivers.secrets import SecretReader
from quintet.controllers.eventingbackend.migration import StreamLocation
from quintet.eventing.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Tools:
    """How drivers reach the world."""

    clock: Clock
    sessions: Sessions
    secrets: SecretReader
    limits: Limits
    """Which addresses users may have us connect to."""
    find: Callable[[ObjectKey], EventingBackend | None]
    """Another backend, as it is known."""


class Driver(ABC):
    """One type of backend."""

    backend: ClassVar[BackendType]

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @staticmethod
    @abstractmethod
    def data_plane(backend: EventingBackend, config: Effective) -> DataPlane:
        """What is to run for a configuration. Pure."""

    @abstractmethod
    async def probe(
        self, backend: EventingBackend, config: Effective, old: StreamLocation | None
    ) -> ProbeResult:
        """Look at the backend stage by stage; what can be put right is put right.

        What pods still use at the place where they are is left to them.
        """

    async def release(self, backend: EventingBackend) -> None:
        """Give back what is held for a backend that goes."""
        await self._tools.sessions.keep_only(backend.key, ())
