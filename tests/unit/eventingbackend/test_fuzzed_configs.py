"""Configs made at random from the catalog: nothing crashes, and all who validate them agree."""

import json
import re

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from quintet.apis.eventingbackend import (
    CATALOG,
    DataType,
    EventingBackend,
    PartCondition,
    config_faults,
    effective,
    effective_from_status,
    entries,
    status_of,
    validate,
)
from quintet.apis.eventingbackend.discovery import DiscoveryRequest, respond
from quintet.apis.eventingbackend.jsonschema import config_schema

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=40),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
NAMES = [key.name for backend in CATALOG.values() for key in backend.keys]


def plausible(key):
    """A value that somebody could mean, right more often than not."""
    if key.allowed:
        return st.sampled_from([*key.allowed, key.allowed[0].swapcase()])
    match key.data_type:
        case DataType.INT:
            return st.integers(key.minimum, key.maximum) | st.integers(key.minimum - 2, key.minimum + 2)
        case DataType.QUANTITY if key.name == "deadLetterMaxBytes":
            return st.builds("{}{}".format, st.integers(2, 900), st.sampled_from(["M", "Mi", "Gi"]))
        case DataType.QUANTITY:
            return st.builds(
                "{}{}".format, st.integers(0, 2000), st.sampled_from(["", "k", "Mi", "Gi", "m", "x"])
            )
        case DataType.DURATION if key.name == "deadLetterMaxAge":
            return st.builds("{}{}".format, st.integers(1, 900), st.sampled_from(["h", ".5h", "h30m"]))
        case DataType.DURATION:
            return st.builds("{}{}".format, st.integers(0, 400), st.sampled_from(["ms", "s", "m", "h", ""]))
    return right(key) | st.sampled_from(["nats://user:secret@host", "a..b", "x" * 300, "ü"])


WORD = st.text("abcxyz019", min_size=1, max_size=9)
OTHER_FORMS = {
    "url": st.builds("{}://{}:{}".format, st.sampled_from(["nats", "tls"]), WORD, st.integers(1, 65535)),
    "domain": st.builds("{}.{}".format, WORD, WORD),
    "deadLetterSubject": WORD.map("dead-{}".format),  # no prefix of other subjects has a '-'
    "deliveryPermanentStatuses": st.lists(st.integers(300, 599), max_size=9).map(
        lambda statuses: ",".join(map(str, statuses)) or "none"
    ),
}


def right(key):
    """A value without mistake."""
    match key.data_type:
        case DataType.INT:
            number = st.integers(key.minimum, key.maximum)
            return number | number.filter(lambda whole: abs(whole) < 2**50).map(float)
        case DataType.QUANTITY if key.name == "deadLetterMaxBytes":
            return st.builds("{}{}".format, st.integers(2, 900), st.sampled_from(["M", "Mi", "Gi"]))
        case DataType.QUANTITY:
            return st.builds(
                "{}{}".format, st.integers(0, 900), st.sampled_from(["", "k", "Mi", "Gi"])
            ) | st.just(7)
        case DataType.DURATION if key.name == "deadLetterMaxAge":
            return st.builds("{}{}".format, st.integers(1, 900), st.sampled_from(["h", ".5h", "h30m"]))
        case DataType.DURATION:
            return st.builds("{}{}".format, st.integers(1, 4), st.sampled_from(["s", "m", ".5s", "s250ms"]))
    return st.sampled_from(key.allowed) if key.allowed else OTHER_FORMS.get(key.name, WORD)


def entry_for(backend):
    known = st.one_of(
        *(
            st.fixed_dictionaries({key.name: plausible(key) | plausible(key) | ANYTHING})
            for key in backend.keys
        )
    )
    misspelt = st.builds(
        lambda name, at, value: {name[:at] + name[at + 1 :]: value},
        st.sampled_from(NAMES),
        st.integers(0, 8),
        LEAVES,
    )
    return st.one_of(
        known, known, known, misspelt, st.dictionaries(st.text(max_size=9), ANYTHING, max_size=2), ANYTHING
    )


def right_config(backend):
    needed = {key.name: right(key) for key in backend.keys if key.required and key.default is None}
    others = {key.name: right(key) for key in backend.keys if key.name not in needed}
    return st.fixed_dictionaries(needed, optional=others).map(
        lambda found: [{name: value} for name, value in found.items()]
    )


def with_name(configs):
    """The name of a type and a config for it."""
    return st.one_of(*(st.tuples(st.just(name), configs(backend)) for name, backend in CATALOG.items()))


CONFIGS = with_name(lambda backend: st.lists(entry_for(backend), max_size=8) | ANYTHING)
RIGHT_CONFIGS = with_name(right_config)


def what_if(backend, config):
    body = json.dumps({"config": config}).encode()
    return respond(DiscoveryRequest(method="POST", path=f"/backend/{backend.name}/validate", body=body))


@settings(max_examples=300, deadline=None)
@given(CONFIGS)
def test_status_warnings_refusals_and_what_if_report_the_same_errors(drawn):
    backend, config = CATALOG[drawn[0]], drawn[1]
    faults = config_faults(backend, config)
    wire = json.loads(msgspec.json.encode(faults))

    reply = what_if(backend, config)
    assert reply.status == 200, reply.body
    assert json.loads(reply.body)["validationErrors"] == wire

    obj = {"metadata": {"name": "x"}, "spec": {"type": backend.name, "config": config}}
    warned, refused = validate(obj), validate(obj, reject=True)
    assert warned.errors == ()
    assert warned.warnings == tuple(map(str, refused.errors))
    assert [error.message for error in refused.errors] == [fault.error for fault in faults]

    up = PartCondition("True")
    status = status_of(
        backend_type=backend.name,
        generation=1,
        faults=faults,
        in_use=(),
        backend=up,
        publisher=up,
        subscriptions=up,
    )
    assert status.eventing_ready is not bool(faults)
    stored = msgspec.json.decode(
        msgspec.json.encode({"spec": {"type": backend.name}, "status": status}), type=EventingBackend
    )
    assert stored.status == status, "what is written fits the bounds of the definition"


@settings(max_examples=300, deadline=None)
@given(RIGHT_CONFIGS)
def test_valid_config_can_be_shown_and_restored(drawn):
    backend, config = CATALOG[drawn[0]], drawn[1]
    assert config_faults(backend, config) == ()
    found = effective(backend, dict(entries(config).pairs))
    for key in backend.keys:
        if key.name in found.values and key.data_type in (DataType.QUANTITY, DataType.DURATION):
            assert found.measure(key.name) >= -1
        elif key.name in found.values and key.data_type is DataType.INT:
            assert key.minimum <= found.integer(key.name) <= key.maximum
    assert effective_from_status(backend, found.entries()) == found
    assert config_faults(backend, [{name: value} for name, value in found.values.items()]) == ()


@settings(max_examples=300, deadline=None)
@given(CONFIGS | RIGHT_CONFIGS)
def test_schema_accepts_what_validation_accepts(drawn):
    backend, config = CATALOG[drawn[0]], drawn[1]
    if config is not None and not config_faults(backend, config):
        assert refusals(config_schema(backend), config) == []


def test_schema_refuses_what_it_can_express():
    nats, beb = config_schema(CATALOG["nats"]), config_schema(CATALOG["beb"])
    assert refusals(nats, [{"streamReplicas": 3}, {"maxBytes": 5}]) == []
    assert refusals(nats, {"streamReplicas": 3}) == ["type array"]
    assert refusals(nats, [{"streamReplicas": 9}]) == ["maximum 5"]
    assert refusals(nats, [{"streamReplicas": "3"}]) == ["type integer"]
    assert refusals(nats, [{"foo": 3}]) == ["unknown foo"]
    assert refusals(nats, [{"streamStorageType": "disk"}]) == ["enum ['file', 'memory']"]
    assert refusals(nats, [{"streamName": "a"}, {"streamName": "b"}]) == ["2 times ['streamName']"]
    assert refusals(nats, [{}]) == ["minProperties 1"]
    assert refusals(beb, []) == ["0 times ['secretRef']"]


TYPES = {"array": list, "object": dict, "string": str}


def is_of(type_, value):
    if type_ in ("integer", "number"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (type_ == "number" or float(value).is_integer())
    return isinstance(value, TYPES[type_])


def refusals(schema, value):
    """As much of JSON Schema as our schemas use; every other keyword is a failure of the test."""
    annotations = {"$schema", "title", "description", "default", "writeOnly", "deprecated"}
    checks = {
        "enum": lambda allowed: value in allowed,
        "minimum": lambda bound: value >= bound,
        "maximum": lambda bound: value <= bound,
        "minLength": lambda bound: len(value) >= bound,
        "maxLength": lambda bound: len(value) <= bound,
        "maxItems": lambda bound: len(value) <= bound,
        "minProperties": lambda bound: len(value) >= bound,
        "maxProperties": lambda bound: len(value) <= bound,
        "pattern": lambda pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
    }
    types = schema.get("type")
    if types is not None and not any(
        is_of(type_, value) for type_ in ([types] if isinstance(types, str) else types)
    ):
        return [f"type {types}"]
    found = []
    for keyword, wanted in schema.items():
        if keyword in checks:
            found += [] if checks[keyword](wanted) else [f"{keyword} {wanted}"]
        elif keyword == "items":
            found += [each for item in value for each in refusals(wanted, item)]
        elif keyword == "properties":
            found += [
                each
                for name, item in value.items()
                if name in wanted
                for each in refusals(wanted[name], item)
            ]
        elif keyword == "additionalProperties":
            found += [f"unknown {name}" for name in value if name not in schema["properties"]]
        elif keyword == "allOf":
            found += [each for part in wanted for each in contained(part, value)]
        else:
            assert keyword in annotations | {"type"}, keyword
    return found


def contained(part, value):
    assert part.keys() == {"contains", "minContains", "maxContains"}
    names = part["contains"]["required"]
    times = sum(isinstance(item, dict) and all(name in item for name in names) for item in value)
    return [] if part["minContains"] <= times <= part["maxContains"] else [f"{times} times {names}"]
