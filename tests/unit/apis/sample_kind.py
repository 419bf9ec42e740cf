"""A kind as a kind should read: types, bounds and rules in one place, and its declaration below.

Used by the unit tests of the schema generator and put on a real API server by
`tests/integration/test_crd_on_api_server.py`.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from quintet.apis.markers import (
    ATOMIC,
    ATOMIC_MAP,
    DATE_TIME,
    DEFAULTED,
    FREE_FORM,
    IMMUTABLE,
    NULLABLE,
    SET,
    Rule,
    list_map,
)
from quintet.apis.meta import JsonObject, ObjectMeta, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource, Scale
from quintet.apis.wellknown import Conditions

Name = Annotated[str, Meta(min_length=1, max_length=63, pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")]
Text = Annotated[str, Meta(max_length=256)]


class Storage(StrEnum):
    """Where what the library lends is kept."""

    MEMORY = "Memory"
    DISK = "Disk"


class Shelf(Struct):
    """A place for books of one sort."""

    rules: ClassVar = (
        Rule(
            "!has(self.used) || self.used <= self.capacity",
            message_expression="'must not be more than fits on ' + self.name",
            field_path=".used",
            reason="FieldValueInvalid",
        ),
    )

    name: Annotated[Name, Meta(description="What the shelf is called.")]
    capacity: Annotated[int, Meta(description="How many books fit.", ge=1, le=1000, multiple_of=5)]
    used: Annotated[int | None, Meta(description="How many books stand there.", ge=0, le=1000)] = None


class Lending(Struct):
    """How books are lent."""

    days: Annotated[int, Meta(description="For how many days.", ge=1, le=365), DEFAULTED] = 14
    reminders: Annotated[bool, Meta(description="Whether borrowers are reminded."), DEFAULTED] = True


class LibrarySpec(Struct):
    """What the library should be like."""

    rules: ClassVar = (Rule("self.open || self.replicas == 0", "a closed library must have no `replicas`"),)

    owner: Annotated[Name, Meta(description="Who pays for it."), IMMUTABLE]
    replicas: Annotated[int, Meta(description="How many copies run.", ge=0, le=100), DEFAULTED] = 1
    open: Annotated[bool, Meta(description="Whether readers may come in."), DEFAULTED] = True
    storage: Annotated[Storage, DEFAULTED] = Storage.MEMORY
    lending: Annotated[Lending, DEFAULTED] = Lending()
    shelves: Annotated[
        tuple[Shelf, ...], list_map("name"), Meta(description="The shelves, by name.", max_length=8)
    ] = ()
    tags: Annotated[tuple[Name, ...], SET, Meta(description="Words to find it by.", max_length=4)] = ()
    opening_hours: Annotated[
        tuple[Text, ...], ATOMIC, Meta(description="For people, in order.", max_length=7)
    ] = ()
    labels: Annotated[dict[str, Text], Meta(description="Labels for the children.", max_length=3)] = field(
        default_factory=dict
    )
    address: Annotated[dict[str, Text], ATOMIC_MAP, Meta(description="Lines by name.", max_length=5)] = field(
        default_factory=dict
    )
    grace: Annotated[int | str | None, Meta(description="Seconds, or a share such as '10%'.")] = None
    note: Annotated[Text | None, NULLABLE, Meta(description="A remark. `null` is kept.")] = None
    template: Annotated[JsonObject, FREE_FORM, Meta(description="Laid over the pod template.")] = field(
        default_factory=dict
    )


class LibraryStatus(Struct):
    """What the library is like."""

    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    replicas: Annotated[int, Meta(description="How many copies run.", ge=0, le=100)] = 0
    selector: Annotated[Text, Meta(description="Finds the copies, for autoscalers.")] = ""
    opened_time: Annotated[str | None, DATE_TIME, Meta(description="When it was opened first.")] = None
    conditions: Conditions = ()


class Library(Struct):
    """A library that lends books."""

    spec: LibrarySpec
    metadata: ObjectMeta = ObjectMeta()
    status: LibraryStatus = LibraryStatus()


LIBRARY = CustomResource(
    resource=Resource("samples.quintet.dev", "v1", "Library", "libraries"),
    type=Library,
    short_names=("lib",),
    columns=(
        Column.condition("Ready"),
        Column("Replicas", ".spec.replicas", type="integer"),
        Column("Owner", ".spec.owner", description="Who pays for it."),
        AGE,
        Column("Message", '.status.conditions[?(@.type=="Ready")].message', wide=True),
    ),
    scale=Scale(),
    selectable=(".spec.owner", ".spec.storage"),
    rules=(Rule("self.metadata.name.startsWith('lib-')", "must be named 'lib-…'"),),
)
