"""The parts of the libraries for checkup authors that need no cluster."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

CHECKUPS = Path(__file__).parents[3] / "images/checkups"
SHELL_LIBRARY = CHECKUPS / "lib/kiagnose.sh"
IN_A_POD = "RESULT_CONFIGMAP_NAME=x RESULT_CONFIGMAP_NAMESPACE=y KUBERNETES_SERVICE_HOST=127.0.0.1"


def module(path: Path):
    """Import a program of an image from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


kiagnose = module(CHECKUPS / "lib/kiagnose.py")
cluster_basics = module(CHECKUPS / "cluster-basics/cluster_basics.py")


def shell(call: str, text: str) -> subprocess.CompletedProcess[bytes]:
    """Call a function of the shell library with text on its standard input."""
    program = f"{IN_A_POD}; . {SHELL_LIBRARY}; {call}"
    return subprocess.run(["sh", "-c", program], input=text.encode(), capture_output=True)


# What a shell variable can hold: no NUL, and no line ends at the end.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).map(
    lambda s: s.rstrip("\n")
)


@settings(max_examples=60)
@given(TEXTS)
@example('a "quoted" \\ back\\slash\t&& \\& %s $HOME `id`\n\nÄ \N{GRINNING FACE}')
@example("".join(map(chr, range(1, 32))) + ".")
def test_shell_library_encodes_any_text_as_json(text):
    done = shell('kiagnose__quoted "$(cat)"', text)
    assert json.loads(done.stdout) == text, done


@settings(max_examples=60)
@given(TEXTS)
@example("<b>&\u2028\x01\\u0041\\\\")
def test_shell_library_reads_any_text_from_object(text):
    other = {"spec.param.message": "wrong"}
    obj = {
        "metadata": {"annotations": other, "note": json.dumps({"data": other})},
        "data": {
            "spec.param.messages": "wrong",
            "spec.param.message": text,
            "z": '"spec.param.message":"wrong"',
        },
    }
    # As Go writes it: compact, and with some characters escaped.
    written = json.dumps(obj, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    done = shell("kiagnose__field spec.param.message", written)
    assert done.stdout.decode() == f"{text}\n", written


def test_shell_library_fails_when_field_is_missing():
    for written in ('{"data":{"a":"b"}}', "{}", '{"metadata":{"spec.param.message":"x"}}'):
        done = shell("kiagnose__field spec.param.message", written)
        assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("text", "want_seconds"),
    [
        ("1m0s", 60),
        ("1h2m3.5s", 3723.5),
        ("500ms", 0.5),
        ("90s", 90),
        ("", None),
        ("90", None),
        ("1m x", None),
        ("soon", None),
    ],
)
def test_seconds_parses_go_duration(text, want_seconds):
    assert kiagnose.seconds(text) == want_seconds


@pytest.mark.parametrize(
    ("value", "want_text"),
    [("a", "a"), (1, "1"), (2.0, "2"), (2.5, "2.5"), (True, "true"), (["ä"], '["ä"]'), (None, "null")],
)
def test_result_is_stored_as_text(value, want_text):
    assert kiagnose._text(value) == want_text


class Api:
    """An API client that these tests do not use."""


def a_run(**environment):
    names = {"RESULT_CONFIGMAP_NAME": "x", "RESULT_CONFIGMAP_NAMESPACE": "y"}
    return kiagnose.Run(names | environment, Api())


def test_param_finds_parameter_in_any_case():
    run = a_run(MAXDESIREDLATENCY="7", EMPTY="")
    assert (run.param("maxDesiredLatency"), run.number("maxDesiredLatency"), run.param("empty")) == (
        "7",
        7,
        "",
    )


def test_number_with_non_numeric_parameter_raises_input_failure():
    with pytest.raises(
        kiagnose.Failure, match="input: parameter samples is 'many', which is not a number; correct it"
    ):
        a_run(SAMPLES="many").number("samples")


@pytest.mark.parametrize("key", ["a b", "ä", "a/b", "x" * 254])
def test_result_with_invalid_configmap_key_is_rejected(key):
    with pytest.raises(ValueError, match="cannot name a result"):
        a_run().result(key, "x")


def test_run_without_configmap_raises_setup_failure():
    with pytest.raises(
        kiagnose.Failure, match="RESULT_CONFIGMAP_NAMESPACE is not set; run this image as a Checkup"
    ):
        kiagnose.Run({}, Api())


def a_node(**conditions):
    return {"status": {"conditions": [{"type": name, "status": value} for name, value in conditions.items()]}}


@pytest.mark.parametrize(
    ("node", "want_trouble"),
    [
        (a_node(Ready="True", MemoryPressure="False"), ""),
        (a_node(Ready="False"), "not Ready"),
        (a_node(Ready="Unknown", DiskPressure="True"), "not Ready, DiskPressure"),
        ({}, "not Ready"),
    ],
    ids=["well", "not ready", "lost, with a full disk", "said nothing yet"],
)
def test_troubles_of_node_lists_bad_conditions(node, want_trouble):
    assert cluster_basics.troubles_of(node) == want_trouble
