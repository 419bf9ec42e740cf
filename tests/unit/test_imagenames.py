"""The default image of another version."""

import pytest

from quintet.imagenames import beside


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param("quintet.local/quintet:0.1.0", "quintet.local/quintet:2", id="the default"),
        pytest.param("example.com/mine/q:0.1.0", "example.com/mine/q:2", id="a private registry"),
        pytest.param("example.com:5000/q", "example.com:5000/q:2", id="a port and no version"),
        pytest.param("example.com:5000/q:1@sha256:ab", "example.com:5000/q:2", id="by digest"),
        pytest.param("q:1", "q:2", id="no registry"),
    ],
)
def test_image_of_other_version_comes_from_same_registry(known, want):
    assert beside("quintet.local/quintet:2", known) == want
