"""For any schemas: what is called safe harms no object, and what only loosens is called safe."""

import copy

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kit.manifests.structural_schemas import KEEPS, apply_defaults, is_valid, prune
from quintet.controllers.suite.decide.schemas import incompatible_changes

NAMES = ["a", "b", "c"]
WORDS = st.text(alphabet="ab", max_size=4)
NUMBERS = st.integers(-6, 6)
ANY = st.one_of(WORDS, NUMBERS, st.booleans(), st.dictionaries(st.sampled_from(NAMES), WORDS, max_size=2))

BOUNDS = {
    "string": {
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 4),
        "pattern": st.sampled_from(["^a", "b$"]),
        "enum": st.lists(WORDS, min_size=1, max_size=3, unique=True),
    },
    "integer": {
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": st.just(True),
        "exclusiveMaximum": st.just(True),
        "multipleOf": st.integers(1, 4),
        "enum": st.lists(NUMBERS, min_size=1, max_size=3, unique=True),
    },
    "boolean": {},
    "array": {
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 3),
        "x-kubernetes-list-type": st.sampled_from(["atomic", "set"]),
    },
    "object": {"minProperties": st.integers(0, 2), "maxProperties": st.integers(0, 4), KEEPS: st.just(True)},
}
for each in BOUNDS.values():
    each["nullable"] = st.just(True)


@st.composite
def schemas(draw, depth=2):
    kind = draw(st.sampled_from(list(BOUNDS) if depth else ["string", "integer", "boolean"]))
    made = {"type": kind}
    for name, values in BOUNDS[kind].items():
        if draw(st.integers(0, 3)) == 0:
            made[name] = draw(values)
    # Draft 4 and Kubernetes alike: it says something about a bound that is there.
    for name in ("minimum", "maximum"):
        if name not in made:
            made.pop(f"exclusive{name.title()}", None)
    if kind == "array":
        made["items"] = draw(schemas(depth - 1))
    if kind == "object" and draw(st.integers(0, 3)) == 0:
        made["additionalProperties"] = draw(schemas(depth - 1))
    elif kind == "object":
        names = draw(st.lists(st.sampled_from(NAMES), unique=True))
        made["properties"] = {name: draw(fields(depth - 1)) for name in names}
        made["required"] = [name for name in names if draw(st.booleans())]
    return made


@st.composite
def fields(draw, depth):
    """A schema of a field, which may have a default."""
    made = draw(schemas(depth))
    if draw(st.integers(0, 3)) == 0:
        value = draw(objects(made))
        if is_valid(made, apply_defaults(made, value)):
            made["default"] = value
    return made


@st.composite
def objects(draw, schema):
    """A value that is meant to fit; whoever asks checks whether it does."""
    if schema.get("nullable") and draw(st.integers(0, 5)) == 0:
        return None
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema.get("type"):
        case "string":
            return draw(WORDS)
        case "integer":
            return draw(NUMBERS)
        case "boolean":
            return draw(st.booleans())
        case "array":
            fewest, most = schema.get("minItems", 0), schema.get("maxItems", 3)
            count = draw(st.integers(fewest, max(fewest, most)))
            return [draw(objects(schema["items"])) for _ in range(count)]
    made = {}
    for name, field in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or draw(st.booleans()):
            made[name] = draw(objects(field))
    rest = schema.get("additionalProperties")
    if rest is not None or schema.get(KEEPS):
        for name in draw(st.lists(st.sampled_from([*NAMES, "d"]), unique=True)):
            if name not in made:
                made[name] = draw(objects(rest) if rest is not None else ANY)
    return made


@st.composite
def with_another_default(draw, field):
    made = draw(field)
    if draw(st.integers(0, 3)) == 0:
        made.pop("default", None)
        value = draw(objects(made))
        return {**made, "default": value} if is_valid(made, apply_defaults(made, value)) else made
    return made


@st.composite
def changed(draw, schema):
    """The same schema with some things otherwise, up or down."""
    if draw(st.integers(0, 15)) == 0:
        return draw(schemas(1))
    made = copy.deepcopy(schema)
    for name, values in BOUNDS[schema["type"]].items():
        how = draw(st.sampled_from(["as it is"] * 8 + ["gone", "other"]))
        if how == "gone":
            made.pop(name, None)
        elif how == "other":
            made[name] = draw(values)
    if "items" in made:
        made["items"] = draw(changed(made["items"]))
    if "additionalProperties" in made:
        made["additionalProperties"] = draw(changed(made["additionalProperties"]))
        return made
    if schema["type"] == "object":
        for name in NAMES:
            how = draw(st.sampled_from(["as it is"] * 4 + ["gone", "other"]))
            if how == "gone":
                made["properties"].pop(name, None)
            elif how == "other" and name in schema["properties"]:
                made["properties"][name] = draw(with_another_default(changed(schema["properties"][name])))
            elif how == "other":
                made["properties"][name] = draw(fields(1))
        made["required"] = [
            name for name in made["properties"] if (name in schema["required"]) != (draw(st.integers(0, 5)) == 0)
        ]  # fmt: skip
    return made


@st.composite
def loosened(draw, schema):
    """The same schema with less said; a default stays, as it is no demand."""
    made = draw(less_bounded(schema))
    for name in ("items", "additionalProperties"):
        if name in made:
            made[name] = draw(loosened(made[name]))
    if "properties" in made:
        made["properties"] = {name: draw(loosened(field)) for name, field in made["properties"].items()}
        for name in NAMES:
            if name not in made["properties"] and KEEPS not in made and draw(st.booleans()):
                made["properties"][name] = draw(schemas(1))
        if draw(st.booleans()):
            made[KEEPS] = True
    return made


@st.composite
def less_bounded(draw, schema):
    made = copy.deepcopy(schema)
    for name in (*BOUNDS[schema["type"]], "required"):
        # A list that may hold an item twice is also applied otherwise, and what is kept stays kept.
        if name not in ("nullable", KEEPS, "x-kubernetes-list-type") and draw(st.booleans()):
            made.pop(name, None)
    for name, step in (("minLength", -1), ("maxLength", 1), ("minimum", -1), ("maximum", 1), ("maxItems", 1)):
        if name in made and draw(st.booleans()):
            made[name] += step
    if "enum" in made:
        made["enum"] = [*made["enum"], *draw(BOUNDS[schema["type"]]["enum"])]
    if draw(st.booleans()):
        made["nullable"] = True
    return made


def findings(old, new):
    """Of schemas of a spec."""
    root = lambda schema: {"type": "object", "properties": {"spec": schema}}  # noqa: E731
    return list(incompatible_changes(root(old), root(new), ""))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.data())
def test_valid_object_stays_valid_under_a_safe_change(data):
    old = data.draw(schemas())
    new = data.draw(changed(old))
    assume(not findings(old, new))
    stored = apply_defaults(old, data.draw(objects(old)))
    assume(is_valid(old, stored))
    kept = prune(new, stored)
    assert kept == stored, f"{new} drops something of {stored}"
    read = apply_defaults(new, kept)
    assert is_valid(new, read), f"{new} refuses {read}, which {old} allowed"
    assert prune(old, read) == stored, f"{new} gives {stored} another meaning: {read}"


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_schema_with_fewer_constraints_is_safe(data):
    old = data.draw(schemas())
    new = data.draw(loosened(old))
    assert findings(old, new) == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(schemas())
def test_unchanged_schema_is_safe(schema):
    assert findings(schema, copy.deepcopy(schema)) == []
