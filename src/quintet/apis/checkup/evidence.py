"""What is saved of a failed run: the ends of its logs, its Events and the states of its containers."""

from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.markers import ATOMIC, DATE_TIME
from quintet.apis.meta import Struct

LOG_BYTES: Final = 4096
MOST_CONTAINERS: Final = 16
MOST_EVENTS: Final = 20
EVENT_LENGTH: Final = 1024


class Log(Struct, frozen=True):
    """The end of the log of a container."""

    container: Annotated[str, Meta(description="Whose log it is.", max_length=253)]
    tail: Annotated[str, Meta(description="Its last 4 KiB.", max_length=2 * LOG_BYTES)] = ""
    note: Annotated[str, Meta(description="Why there is no log, if there is none.", max_length=1024)] = ""


class EventNote(Struct, frozen=True):
    """An Event about the Job or its pod."""

    about: Annotated[str, Meta(description="What it is about: Job or Pod, and the name.", max_length=320)]
    type: Annotated[str, Meta(description="Normal or Warning.", max_length=32)] = ""
    reason: Annotated[str, Meta(description="In one word.", max_length=128)] = ""
    message: Annotated[str, Meta(description="In a sentence.", max_length=EVENT_LENGTH)] = ""
    count: Annotated[int, Meta(description="How often it was said.", ge=0)] = 0
    last_seen: Annotated[str | None, DATE_TIME, Meta(description="When it was said last.")] = None


class ContainerState(Struct, frozen=True):
    """The state of a container."""

    container: Annotated[str, Meta(description="Which one.", max_length=253)]
    state: Annotated[
        str, Meta(description="Waiting, Running or Terminated, with reason.", max_length=1024)
    ] = ""


class Evidence(Struct, frozen=True):
    """What is saved of a run that did not succeed."""

    pod: Annotated[str, Meta(description="The pod that it is about, if there was one.", max_length=253)] = ""
    node: Annotated[str, Meta(description="The node that the pod was on.", max_length=253)] = ""
    containers: Annotated[
        tuple[ContainerState, ...],
        ATOMIC,
        Meta(description="How the containers stood.", max_length=MOST_CONTAINERS),
    ] = ()
    logs: Annotated[
        tuple[Log, ...], ATOMIC, Meta(description="The ends of the logs.", max_length=MOST_CONTAINERS)
    ] = ()
    events: Annotated[
        tuple[EventNote, ...],
        ATOMIC,
        Meta(description="Events about the Job and its pod, the last ones.", max_length=MOST_EVENTS),
    ] = ()
