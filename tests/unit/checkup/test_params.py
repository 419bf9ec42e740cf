"""Parameters as users write them: what is taken, and what is refused with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.checkup import params
from quintet.apis.checkup.contract import VARIABLES


@pytest.mark.parametrize(
    ("given_", "want"),
    [
        pytest.param(None, {}, id="nothing"),
        pytest.param("", {}, id="an empty text"),
        pytest.param("{}", {}, id="an empty object as text"),
        pytest.param({}, {}, id="an empty object"),
        pytest.param('{\n  "message": "Hi!"\n}\n', {"message": "Hi!"}, id="the text of the design"),
        pytest.param({"message": "Hi!"}, {"message": "Hi!"}, id="the same as an object"),
        pytest.param(
            '{"a": "b=c=d", "e": ""}', {"a": "b=c=d", "e": ""}, id="values with equals signs, or empty"
        ),
        pytest.param({"sample.rate-ms": "5"}, {"sample.rate-ms": "5"}, id="dots and dashes"),
    ],
)
def test_valid_params_are_accepted(given_, want):
    values, errors = params.parse(given_)
    assert (values, list(errors)) == (want, [])


@pytest.mark.parametrize(
    ("given_", "want"),
    [
        pytest.param("{", "spec.params: Invalid value", id="no JSON"),
        pytest.param('{"a": "b",}', "line 1, column 11", id="where it is no JSON"),
        pytest.param("null", "must be a JSON object", id="null"),
        pytest.param('"text"', "must be a JSON object", id="a text in a text"),
        pytest.param(5, "Invalid type", id="a number instead"),
        pytest.param({"a": {"b": "c"}}, "nested values cannot be passed", id="an object inside"),
        pytest.param({"a": ["b"]}, "nested values cannot be passed", id="a list inside"),
        pytest.param({"a": None}, "must be a string", id="null inside"),
        pytest.param('{"a": 5}', "write it as a text, in quotes", id="a number inside"),
        pytest.param({"a": True}, "write it as a text, in quotes", id="a boolean inside"),
        pytest.param({"": "x"}, "is no name for a variable", id="no name"),
        pytest.param({"1a": "x"}, "is no name for a variable", id="a digit first"),
        pytest.param({"a=b": "x"}, "is no name for a variable", id="an equals sign in the name"),
        pytest.param({"ä": "x"}, "is no name for a variable", id="a letter that is not of ASCII"),
        pytest.param({"a" * 201: "x"}, "must not be longer than 200", id="a name without end"),
        pytest.param(
            {"aB": "x", "Ab": "y"}, "'aB' are both the variable AB", id="two names for one variable"
        ),
        pytest.param('{"a": "x", "a": "y"}', "is there twice", id="one name twice"),
        pytest.param({"path": "/healthz"}, "is needed to run the image", id="a variable that images need"),
        pytest.param(
            {"a": "b\0"}, "must not hold the character NUL", id="a character that no variable can hold"
        ),
        pytest.param({"a": "x" * 200_000}, "must not be longer than 131072 bytes", id="too much"),
        pytest.param({f"p{n}": "" for n in range(257)}, "at most 256", id="too many"),
        pytest.param("[" * 200_000, "nested too deeply", id="a text that is all brackets"),
    ],
)
def test_invalid_params_are_refused(given_, want):
    _, errors = params.parse(given_)
    assert any(want in str(error) for error in errors), list(map(str, errors))


@pytest.mark.parametrize("name", VARIABLES)
def test_param_cannot_override_a_reserved_variable(name):
    _, errors = params.parse({name.lower(): "x"})
    assert "choose another name" in str(next(iter(errors)))


@given(st.text() | st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_params_of_any_shape_give_values_or_errors(written):
    values, errors = params.parse(written)
    upper = [name.upper() for name in values]
    assert len(upper) == len(set(upper))
    assert all(isinstance(value, str) for value in values.values())
    if isinstance(written, dict):
        assert len(values) == len(written) or errors
