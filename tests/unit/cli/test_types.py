"""Types of option values."""

import click
import pytest

from quintet.cli.types import Networks


def test_networks_splits_at_commas():
    assert Networks().convert("10.0.0.0/8, fd00::/8,192.0.2.1", None, None) == (
        "10.0.0.0/8",
        "fd00::/8",
        "192.0.2.1",
    )
    assert Networks().convert("", None, None) == ()


@pytest.mark.parametrize("text", ["10.0.0.1/8", "everything", "10.0.0.0/33"])
def test_networks_rejects_invalid_network_with_an_example(text):
    with pytest.raises(click.BadParameter, match=r"write networks such as 10\.0\.0\.0/8"):
        Networks().convert(text, None, None)
