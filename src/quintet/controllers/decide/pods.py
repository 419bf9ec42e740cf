"""The fields of pods that tell why a container does not run."""

from quintet.apis.meta import Object, Struct


class Waiting(Struct, frozen=True):
    """A container that has not started, or waits for its next start."""

    reason: str = ""
    message: str = ""


class Running(Struct, frozen=True):
    """A container that runs."""

    started_at: str | None = None


class Terminated(Struct, frozen=True):
    """A container that has ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class State(Struct, frozen=True):
    """The state of a container; at most one field is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True):
    """The fields that are read of a container status."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: State = State()
    last_state: State = State()

    @property
    def has_started(self) -> bool:
        """Whether the container has a log."""
        return self.state.running is not None or self.state.terminated is not None


class PodCondition(Struct, frozen=True):
    """The fields that are read of a pod's condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Struct, frozen=True):
    """The fields that are read of a pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodSpec(Struct, frozen=True):
    """The fields that are read of a pod's spec."""

    node_name: str = ""


class PodView(Object, frozen=True):
    """The fields that are read of a pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def containers(self) -> tuple[ContainerStatus, ...]:
        """Init containers, then containers."""
        return (*self.status.init_container_statuses, *self.status.container_statuses)

    @property
    def has_ended(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")
