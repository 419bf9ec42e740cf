"""Which texts are data, and what is said about those that are not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.jsonserver.jsonconfig import escaped_size, validate_data
from quintet.apis.jsonserver.types import MAX_CONFIG_BYTES


@pytest.mark.parametrize(
    "text", ["{}", '{"people": []}', ' {"a": {"b": 1e5}} \n', '{"a": "NaN and Infinity"}', '{"ü": "\\u00fc"}']
)
def test_json_object_is_accepted(text):
    assert validate_data(text).errors == ()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "line 1, column 1: expecting value"),
        ("{", "line 1, column 2: expecting property name enclosed in double quotes"),
        ('{"a": 1,}', "line 1, column 9: expecting property name enclosed in double quotes"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: expecting ',' delimiter"),
        ("{'a': 1}", "line 1, column 2: expecting property name enclosed in double quotes"),
        ('{"a": 1} trailing', "line 1, column 10: extra data"),
        ("null", "the top level must be an object, not null"),
        ("[]", "the top level must be an object, not an array"),
        ('"text"', "the top level must be an object, not a string or number"),
        ("42", "the top level must be an object, not a string or number"),
        ("true", "the top level must be an object, not a boolean"),
        ('{"a": NaN}', "line 1, column 7: NaN is not a JSON value"),
        ('{"a": "NaN",\n "b": -Infinity}', "line 2, column 7: -Infinity is not a JSON value"),
        ('{"a": 1, "a": 2}', "a: duplicate key"),
        ('{"a": [{"b": 1}, {"c": 1, "c": 1}]}', "a[1].c: duplicate key"),
        ('{"a": "\ud800"}', "line 1, column 8: not valid UTF-8"),
        ("[" * 100_000, "nested too deeply to be served"),
    ],
)
def test_invalid_json_is_reported_with_its_position(text, want):
    assert validate_data(text).errors == (want,)


@pytest.mark.parametrize(("extra", "fits"), [(-1, True), (0, True), (1, False)])
def test_size_limit_is_one_mebibyte(extra, fits):
    # Two bytes of quotes around the value and four escaped ones inside it leave this much.
    text = '{"a":"' + "x" * (MAX_CONFIG_BYTES - 2 - 4 - 8 + extra) + '"}'
    assert escaped_size(text, len(text)) == MAX_CONFIG_BYTES + extra
    assert (not validate_data(text).errors) is fits


def test_escaped_quotes_count_as_stored():
    text = json.dumps({"a": '"' * 400_000})
    assert len(text) < MAX_CONFIG_BYTES
    assert "once its quotes are escaped" in validate_data(text).errors[0]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\b\f"), max_size=200))
def test_escaped_size_equals_that_of_the_go_encoder(text):
    # Go escapes a few characters more than Python does.
    written = json.dumps(text, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    assert escaped_size(text, len(text.encode())) == len(written.encode())


@given(st.text(max_size=60))
def test_any_text_is_parsed_without_crash(text):
    validate_data(text)


@pytest.mark.parametrize(
    ("data", "want"),
    [
        ({"a": [], "b": {}}, []),
        (
            {"a": 1},
            ["a: json-server serves only objects and arrays at the top level, not a string or number"],
        ),
        ({"a": None}, ["a: json-server serves only objects and arrays at the top level, not null"]),
        ({"a/b": []}, ["a/b: json-server cannot serve a key with '/'"]),
        ({"a": [{"id": 1}, {"x": 1}]}, ["a[1]: json-server cannot fetch an item without an id"]),
        ({"a": [{"id": 1}, {"id": "1"}]}, ["a[1].id: 1 is also the id of a[0]"]),
    ],
)
def test_data_that_json_server_cannot_serve_is_reported_with_its_path(data, want):
    assert validate_data(json.dumps(data)) == ((), tuple(want))


def test_long_list_of_doubts_is_cut():
    assert len(validate_data(json.dumps({"a": [{} for _ in range(100)]})).warnings) == 6
