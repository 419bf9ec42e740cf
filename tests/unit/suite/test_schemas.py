"""Which changes of a schema are refused, keyword by keyword, and which only loosen."""

import pytest

from quintet.controllers.suite.decide.schemas import incompatible_changes

KEEPS = "x-kubernetes-preserve-unknown-fields"
RULES = "x-kubernetes-validations"
LIST, KEYS, MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"


def text(**more):
    return {"type": "string", **more}


def number(**more):
    return {"type": "number", **more}


def whole(**more):
    return {"type": "integer", **more}


def obj(*required, **properties):
    made = {"type": "object", "properties": properties}
    return {**made, "required": list(required)} if required else made


def free(**properties):
    return {"type": "object", KEEPS: True, **({"properties": properties} if properties else {})}


def values(schema, **more):
    return {"type": "object", "additionalProperties": schema, **more}


def array(items=None, **more):
    return {"type": "array", **({} if items is None else {"items": items}), **more}


def changes(old, new):
    root = lambda schema: {"type": "object", "properties": {"spec": schema}}  # noqa: E731
    return list(incompatible_changes(root(old), root(new), ""))


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(text(), whole(), [": type changes from string to integer"], id="another type"),
        pytest.param(whole(), {"x-kubernetes-int-or-string": True}, [": type changes from integer to nothing", ": x-kubernetes-int-or-string changes from False to True"], id="also a string"),
        pytest.param(obj(a=text()), obj(), [".a: the field is removed"], id="a field is removed"),
        pytest.param(obj(), obj("a", a=text()), [".a: the field is now required"], id="a new required field"),
        pytest.param(obj(a=text()), obj("a", a=text()), [".a: the field is now required"], id="an optional field is required"),
        pytest.param(obj(a=obj(b=text())), obj(a=obj("b", b=text())), [".a.b: the field is now required"], id="required inside an optional parent that was there"),
        pytest.param(obj(a=text()), obj("a", a=text(default="x")), [".a: the default changes from nothing to x"], id="required, with a default that is new"),
        pytest.param({**obj(a=text()), "maxProperties": 1}, {**obj(a=text(), b=text(default="x")), "maxProperties": 1}, [".b: its default could exceed maxProperties"], id="a default beyond maxProperties"),
        pytest.param(text(nullable=True), text(), [": null is no longer allowed"], id="null"),
        # What becomes of fields without a name.
        pytest.param(free(), obj(a=text()), [".a: type changes from nothing to string", ": unknown fields are no longer preserved"], id="free-form becomes fields"),
        pytest.param(free(), free(a=text()), [".a: type changes from nothing to string"], id="a free field is checked now"),
        pytest.param(free(), values(text()), ["[*]: type changes from nothing to string"], id="free-form becomes a map of strings"),
        pytest.param(values(True), values(text()), ["[*]: type changes from nothing to string"], id="a map of anything becomes one of strings"),
        pytest.param(free(), values(True), ["[*]: unknown fields are no longer preserved"], id="what lies deeper is dropped"),
        pytest.param(values(text()), values(whole()), ["[*]: type changes from string to integer"], id="a map of other values"),
        pytest.param(values(text()), obj(a=text()), [": unknown fields are no longer preserved"], id="a map becomes fields"),
        pytest.param(obj(a=whole()), values(text()), [".a: type changes from integer to string"], id="a field becomes a value of a map of others"),
        pytest.param(obj(a=text(default="x")), free(), [".a: the default changes from x to nothing"], id="a default is gone with its field"),
        # Lists.
        pytest.param(array(), array(text()), ["[]: type changes from nothing to string"], id="items are checked now"),
        pytest.param(array(text()), array(text(maxLength=3)), ["[]: maxLength is tightened from nothing to 3"], id="items are bounded now"),
        pytest.param(array(text()), array(text(), **{LIST: "set"}), [": x-kubernetes-list-type changes from atomic to set"], id="no item twice"),
        pytest.param(array(text(), **{LIST: "set"}), array(text()), [": x-kubernetes-list-type changes from set to atomic"], id="an applier takes the whole list"),
        pytest.param(
            array(obj("a", a=text()), **{LIST: "map", KEYS: ["a"]}),
            array(obj("a", a=text()), **{LIST: "map", KEYS: ["a", "b"]}),
            [": x-kubernetes-list-map-keys changes from ['a'] to ['a', 'b']"],
            id="items are told apart by other keys",
        ),
        pytest.param(obj(a=text()), {**obj(a=text()), MAP: "atomic"}, [": x-kubernetes-map-type changes from granular to atomic"], id="an applier takes the whole object"),
        # Bounds and values.
        pytest.param(text(maxLength=9), text(maxLength=8), [": maxLength is tightened from 9 to 8"], id="a lower maxLength"),
        pytest.param(array(text(), maxItems=9), array(text(), maxItems=8), [": maxItems is tightened from 9 to 8"], id="a lower maxItems"),
        pytest.param(values(text()), values(text(), maxProperties=8), [": maxProperties is tightened from nothing to 8"], id="a new maxProperties"),
        pytest.param(text(), text(minLength=1), [": minLength is tightened from nothing to 1"], id="a new minLength"),
        pytest.param(whole(minimum=1), whole(minimum=2), [": minimum is tightened from 1 to 2"], id="a higher minimum"),
        pytest.param(whole(), whole(maximum=2), [": maximum is tightened from nothing to 2"], id="a new maximum"),
        pytest.param(whole(), whole(maximum=0), [": maximum is tightened from nothing to 0"], id="a new maximum of nought"),
        pytest.param(number(maximum=2), number(maximum=2, exclusiveMaximum=True), [": exclusiveMaximum is tightened from nothing to True"], id="the maximum itself is out"),
        pytest.param(number(minimum=2), number(minimum=2, exclusiveMinimum=True), [": exclusiveMinimum is tightened from nothing to True"], id="the minimum itself is out"),
        pytest.param(whole(multipleOf=2), whole(multipleOf=4), [": multipleOf is tightened from 2 to 4"], id="only multiples of more"),
        pytest.param(text(pattern="^a"), text(pattern="^b"), [": pattern is tightened from ^a to ^b"], id="another pattern"),
        pytest.param(text(), text(format="date-time"), [": format is tightened from nothing to date-time"], id="a new format"),
        pytest.param(whole(format="int64"), whole(format="int32"), [": format is tightened from int64 to int32"], id="a narrower format"),
        pytest.param(text(), text(enum=["x"]), [": only the values of the new enum are allowed"], id="a choice"),
        pytest.param(text(enum=["x", "y"]), text(enum=["x", "z"]), [": no longer allows y"], id="a choice less"),
        # Other demands.
        pytest.param(text(), text(**{RULES: [{"rule": "a"}]}), [": the rule `a` is new"], id="a rule"),
        pytest.param(text(**{RULES: [{"rule": "a"}]}), text(**{RULES: [{"rule": "a || b ? c : d"}]}), [": the rule `a || b ? c : d` is new"], id="a choice is no alternative"),
        pytest.param(text(**{RULES: [{"rule": "a ? b : c"}]}), text(**{RULES: [{"rule": "a ? b : c || d"}]}), [": the rule `a ? b : c || d` is new"], id="an alternative of a part of a choice"),
        pytest.param(text(**{RULES: [{"rule": "a"}]}), text(**{RULES: [{"rule": "a && b"}]}), [": the rule `a && b` is new"], id="a rule with a further demand"),
        pytest.param(obj(a=text()), obj(a=text(), b=text()) | {RULES: [{"rule": "!has(self.a) || has(self.b)"}]}, [": the rule `!has(self.a) || has(self.b)` is new"], id="a rule about a known field"),
        pytest.param(obj(a=obj()), obj(a=obj(b=text())) | {RULES: [{"rule": "!has(self.a.b) || c"}]}, [": the rule `!has(self.a.b) || c` is new"], id="a rule that fails where its parent is missing"),
        pytest.param(free(), free() | {RULES: [{"rule": "!has(self.b) || c"}]}, [": the rule `!has(self.b) || c` is new"], id="a rule about a field that was preserved"),
        pytest.param(
            text(**{RULES: [{"rule": "a"}]}),
            text(**{RULES: [{"rule": "a", "optionalOldSelf": True}]}),
            [": the rule `a` is new"],
            id="a rule about changes holds for new objects too",
        ),
        pytest.param(text(), text(allOf=[{"maxLength": 3}]), [": allOf has more schemas"], id="allOf"),
        pytest.param(text(), text(anyOf=[{"maxLength": 3}]), [": anyOf has fewer schemas"], id="anyOf"),
        pytest.param(text(anyOf=[{"maxLength": 3}, {"minLength": 9}]), text(anyOf=[{"maxLength": 3}]), [": anyOf has fewer schemas"], id="less of anyOf"),
        pytest.param(text(oneOf=[{"maxLength": 3}]), text(oneOf=[{"maxLength": 3}, {"minLength": 2}]), [": oneOf changes"], id="more of oneOf: two could match"),
        pytest.param(text(), text(**{"not": {"enum": ["x"]}}), [": not changes"], id="not"),
        pytest.param(text(), text(**{"x-kubernetes-of-tomorrow": 1}), [": x-kubernetes-of-tomorrow changes, and it is unknown whether that is safe"], id="a keyword of a later Kubernetes"),
    ],
)  # fmt: skip
def test_tighter_schema_is_reported_with_its_path(old, new, want):
    assert changes(old, new) == [f".spec{each}" for each in want]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(obj(), obj(a=obj("b", b=text())), id="required inside a new optional parent"),
        pytest.param(obj(), obj("a", a=text(default="x")), id="a new required field with a default"),
        pytest.param(obj(a=text(default="x")), obj("a", a=text(default="x")), id="a field that always had a default is required"),
        pytest.param(obj("a", a=text()), obj(a=text()), id="no longer required"),
        pytest.param(obj(a=text()), free(), id="everything is kept"),
        pytest.param(obj(a=text()), values(text()), id="fields become a map of the same"),
        pytest.param(values(text()), values({KEEPS: True}), id="a map of strings becomes one of anything"),
        pytest.param(values(text()), free(), id="a map becomes free-form"),
        pytest.param(obj(), obj(a=free()), id="a new free-form field"),
        pytest.param(array(text()), array(text(), **{LIST: "atomic"}), id="a list said to be what it is"),
        pytest.param(
            array(text(), **{LIST: "map", KEYS: ["a", "b"]}),
            array(text(), **{LIST: "map", KEYS: ["b", "a"]}),
            id="keys in another order",
        ),
        pytest.param(obj(a=text()), {**obj(a=text()), MAP: "granular"}, id="an object said to be what it is"),
        pytest.param(text(), text(minLength=0), id="a bound that every value meets"),
        pytest.param(number(maximum=2, exclusiveMaximum=True), number(maximum=2), id="the maximum itself is in"),
        pytest.param(whole(maximum=2), whole(maximum=3, exclusiveMaximum=True), id="up to the next, which is out"),
        pytest.param(whole(minimum=2), whole(minimum=-2), id="a lower minimum"),
        pytest.param(whole(multipleOf=4), whole(multipleOf=2), id="multiples of less"),
        pytest.param(whole(format="int32"), whole(format="int64"), id="a wider format"),
        pytest.param(text(format="date-time"), text(), id="no format"),
        pytest.param(text(enum=["x"]), text(), id="no choice any more"),
        pytest.param(text(), text(nullable=True), id="null is allowed"),
        pytest.param(text(**{RULES: [{"rule": "a"}]}), text(**{RULES: [{"rule": "a || (b ? c : d)"}]}), id="another alternative"),
        pytest.param(obj(a=text()), obj(a=text(), b=text(), **{}) | {RULES: [{"rule": "!has(self.b) || has(self.a)"}]}, id="a rule about a new field"),
        pytest.param(obj("a", a=obj()), obj("a", a=obj(b=text())) | {RULES: [{"rule": "!has(self.a.b) || self.a.b != ''"}]}, id="a rule about a new field of a required one"),
        pytest.param(text(**{RULES: [{"rule": "a", "message": "b"}]}), text(**{RULES: [{"rule": "a", "message": "c"}]}), id="a rule in other words"),
        pytest.param(text(allOf=[{"maxLength": 3}, {"minLength": 1}]), text(allOf=[{"minLength": 1}]), id="less of allOf"),
        pytest.param(text(anyOf=[{"maxLength": 3}]), text(anyOf=[{"maxLength": 3}, {"minLength": 9}]), id="more of anyOf"),
        pytest.param(text(anyOf=[{"maxLength": 3}], oneOf=[{}], **{"not": {"enum": ["x"]}}), text(), id="no more anyOf, oneOf, not"),
        pytest.param(text(title="a", description="b", example="c"), text(title="d"), id="other words"),
    ],
)  # fmt: skip
def test_looser_schema_is_safe(old, new):
    assert changes(old, new) == []


def test_metadata_name_is_compared_like_any_field():
    bounded = {"metadata": {"type": "object", "properties": {"name": text(maxLength=52)}}}
    found = list(incompatible_changes(obj(), obj(**bounded), "schema"))
    assert found == ["schema.metadata.name: maxLength is tightened from nothing to 52"]
    assert list(incompatible_changes(obj(**bounded), obj(), "schema")) == []


def test_standard_fields_need_not_be_named():
    named = obj(apiVersion=text(), kind=text(), metadata={"type": "object"})
    assert list(incompatible_changes(named, obj(), "")) == []
    assert list(incompatible_changes(obj(), named, "")) == []
