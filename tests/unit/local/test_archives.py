"""Image archives: their files layer by layer, and identical bytes for identical images."""

import os
import tarfile

import pytest

from kit.install.image_archives import an_image, layer
from quintet.local.errors import LocalError
from quintet.local.images.archives import LayerFile, RemovedPath, normalize_archive, open_archive


def seen(path):
    with open_archive(path) as archive:
        return [
            (each.path, each.content.read(), each.mode) if isinstance(each, LayerFile) else each
            for each in archive.members()
        ]


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed layers", "plain layers"])
def test_archive_yields_files_of_all_layers_in_order(tmp_path, compressed):
    path = tmp_path / "image.tar"
    layers = [(("./a", None), ("./a/b", b"1")), (("a/b", b"2"),)]
    an_image(path, *(layer(*each, compressed=compressed) for each in layers))
    assert seen(path) == [("a/b", b"1", 0o755), ("a/b", b"2", 0o755)]


def test_archive_yields_removed_paths_of_a_layer(tmp_path):
    path = tmp_path / "image.tar"
    an_image(path, layer(("etc/.wh.passwd", b""), ("var/.wh..wh..opq", b""), ("usr/bin/awk", "mawk")))
    assert seen(path) == [RemovedPath("etc/passwd"), RemovedPath("var"), RemovedPath("usr/bin/awk")]


def test_archive_digest_and_size_come_from_the_manifest(tmp_path):
    path, content = tmp_path / "image.tar", layer(("a", b"1"))
    digest = an_image(path, content)
    with open_archive(path) as archive:
        assert (archive.digest, archive.size) == (digest, len(content) + len(b"{}"))


def test_normalized_archives_of_one_image_are_identical(tmp_path):
    for number, name in enumerate(("one", "two")):
        an_image(tmp_path / name, layer(("a", b"1")), mtime=number, reverse=bool(number))
        os.utime(tmp_path / name, (number, number))
        normalize_archive(tmp_path / name, tmp_path / f"{name}.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert seen(tmp_path / "one.tar") == seen(tmp_path / "one")


def test_normalized_archive_keeps_links(tmp_path):
    source, target = tmp_path / "one", tmp_path / "two"
    source.write_bytes(layer(("x/layer.tar", b"1"), ("y/layer.tar", "../x/layer.tar"), compressed=False))
    normalize_archive(source, target)
    with tarfile.open(target) as packed:
        assert [(each.name, each.linkname) for each in packed] == [
            ("x/layer.tar", ""),
            ("y/layer.tar", "../x/layer.tar"),
        ]


def test_archive_not_in_oci_layout_is_rejected_with_next_step(tmp_path):
    path = tmp_path / "other.tar"
    path.write_bytes(layer(("manifest.json", b"[]"), compressed=False))
    with (
        pytest.raises(
            LocalError, match=r"other\.tar is not an archive of one image.*it has no index\.json"
        ) as error,
        open_archive(path),
    ):
        pass
    assert "build the image again" in error.value.next_step
