"""The same source gives the same image. `make packaging` tests every image."""

import shutil

import pytest

from quintet.local.images import build, catalog
from quintet.local.images.archives import open_archive
from quintet.local.paths import cache_directory

pytestmark = [pytest.mark.node, pytest.mark.exhaustive]
CHEAP = (catalog.PAUSE, catalog.ECHO)


@pytest.mark.parametrize("reference", CHEAP)
def test_image_built_twice_gives_identical_archive(reference, tmp_path, monkeypatch):
    image = next(each for each in catalog.IMAGES if each.reference == reference)
    bases = list((cache_directory() / "images").glob(f"base-*-{image.base}.tar")) if image.base else []
    monkeypatch.setenv("GOCACHE", str(cache_directory().parent / "go-build"))
    built = []
    for name in ("one", "two"):
        cache = tmp_path / name
        (cache / "quintet/images").mkdir(parents=True)
        for base in bases:
            shutil.copy(base, cache / "quintet/images")
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        built.append(build.build_archive(image, print))
    one, two = built
    with open_archive(one) as first, open_archive(two) as second:
        assert first.digest == second.digest
    assert one.read_bytes() == two.read_bytes()
