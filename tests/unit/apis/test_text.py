"""Text and numbers from other processes."""

import pytest

from quintet.apis.text import parse_number


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("007", 7),
        ("123456789", 123456789),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1_0", None),
        (" 1", None),
        ("²", None),
        ("٣", None),
        ("1234567890", None),
        ("9" * 5000, None),
    ],
)
def test_only_ascii_digits_are_a_number(text, want):
    assert parse_number(text) == want
