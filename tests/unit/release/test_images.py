"""The images of a release: list, digests and SBOMs."""

import json
from pathlib import Path

import pytest

from kit.install.image_archives import an_image, layer
from quintet.local.images.catalog import Image
from quintet.release import images

HASH = "a" * 64
LOCKED = f"msgspec==1 \\\n    --hash=sha256:{HASH}\n"


@pytest.fixture
def given(tmp_path, monkeypatch):
    """The files of a release with one image, and the progress messages."""
    content = layer(
        ("var/lib/dpkg/status.d/dash", b"Package: dash\nVersion: 1\nArchitecture: amd64\n"),
        ("app/msgspec-1.dist-info/METADATA", b"Name: msgspec\nVersion: 1\n"),
        ("usr/lib/os-release", b"ID=debian\nVERSION_ID=12\n"),
    )
    digest = an_image(tmp_path / "x.tar", content)
    monkeypatch.setattr(images.catalog, "IMAGES", (Image("quintet.local/a/x:2", "a/x"),))
    monkeypatch.setattr(images, "build_archive", lambda image, progress: tmp_path / "x.tar")
    files, said = {}, []
    images.write_images(LOCKED, files.__setitem__, said.append)
    return files, said, digest, len(content) + len(b"{}")


def test_images_json_lists_digest_and_size_of_image(given):
    files, said, digest, size = given
    (listed,) = json.loads(files[Path("images.json")])
    assert listed == {
        "reference": "quintet.local/a/x:2",
        "digest": digest,
        "size": size,
        "archive": "images/a-x-2.tar",
    }
    assert files[Path("images/a-x-2.tar")].name == "x.tar"
    assert said == [f"quintet.local/a/x:2 {digest} 0.0 MB"]


def test_image_sbom_has_digest_and_found_packages(given):
    files, _, digest, _ = given
    body = json.loads(files[Path("sbom/a-x-2.cdx.json")])
    about = body["metadata"]["component"]
    assert (about["name"], about["version"]) == ("quintet.local/a/x", "2")
    assert about["purl"] == f"pkg:oci/x@{digest.replace(':', '%3A')}"
    system, debian, python = body["components"]
    assert (system["name"], system["version"]) == ("debian", "12")
    assert debian["purl"] == "pkg:deb/debian/dash@1?arch=amd64"
    assert python["properties"] == [{"name": "quintet:sha256", "value": HASH}]


@pytest.mark.parametrize(
    ("system", "user", "want"),
    [
        ("Linux", 0, ""),
        ("Linux", 1000, "building needs root"),
        ("Darwin", 0, "building needs Linux, and this is Darwin"),
    ],
)
def test_images_are_buildable_as_root_on_linux_only(monkeypatch, system, user, want):
    monkeypatch.setattr(images.platform, "system", lambda: system)
    monkeypatch.setattr(images.os, "geteuid", lambda: user)
    assert images.reason_not_buildable() == want
