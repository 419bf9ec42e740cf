"""The types of Greeting."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from quintet.apis.markers import DEFAULTED
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.wellknown import Conditions

GREETINGS = Resource("samples.quintet.dev", "v1", "Greeting", "greetings")
FINALIZER = "samples.quintet.dev/greeting"


class Language(StrEnum):
    """The language of a greeting."""

    ENGLISH = "English"
    FRENCH = "French"


class GreetingSpec(Struct, frozen=True):
    """The desired greeting."""

    person: Annotated[str, Meta(description="The person to greet.", min_length=1, max_length=63)]
    language: Annotated[Language, Meta(description="The language of the greeting."), DEFAULTED] = (
        Language.ENGLISH
    )


class GreetingStatus(Struct, frozen=True):
    """The observed status of a greeting."""

    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    text: Annotated[str, Meta(description="The text in the ConfigMap.", max_length=128)] = ""
    conditions: Conditions = ()


class Greeting(Object, frozen=True, kw_only=True):
    """A greeting in a ConfigMap."""

    spec: GreetingSpec
    status: GreetingStatus = GreetingStatus()


GREETING = CustomResource(
    resource=GREETINGS,
    type=Greeting,
    short_names=("gr",),
    columns=(Column.condition("Ready"), Column("Text", ".status.text"), AGE),
)
