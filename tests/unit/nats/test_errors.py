"""Every answer of JetStream has one meaning, and it is found by number."""

import re

import pytest

from quintet.nats import errors
from quintet.nats.errors import JetStreamError, NatsError, error_for


@pytest.mark.parametrize(
    ("err_code", "want"),
    [
        (10059, errors.StreamNotFound),
        (10014, errors.ConsumerNotFound),
        (10037, errors.MessageNotFound),
        (10077, errors.StreamFull),
        (10047, errors.StreamFull),
        (10002, errors.StreamFull),
        (10058, errors.NameInUse),
        (10065, errors.SubjectsInUse),
        (10008, errors.NotReady),
        (10052, JetStreamError),
        (99999, JetStreamError),
        (10076, errors.JetStreamUnavailable),
        (10039, errors.JetStreamUnavailable),
    ],
)
def test_error_number_selects_the_error_class(err_code, want):
    error = error_for(400, err_code, "words")

    assert type(error) is want
    assert "words" in str(error)
    assert str(err_code) in str(error)


def test_module_docstring_lists_every_error():
    drawn = set(re.findall(r"[A-Z][A-Za-z]+", errors.__doc__.split("\n\n", 1)[1]))
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, NatsError)
    }

    assert defined <= drawn, defined - drawn
