import os

import pytest

from quintet.local import bases, images, packages
from quintet.local.errors import LocalError


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine on which no program is found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "which", lambda _: None)
    return tmp_path


def test_without_apt_it_is_said_what_is_missing(bare):
    with pytest.raises(LocalError) as caught:
        packages.container_runtime(lambda _: None)
    assert caught.value.message == "missing: containerd, runc, and there is no apt-get here to get it with"
    assert caught.value.next_step == "install containerd, runc"


def test_without_root_a_missing_tool_is_named_with_the_command_that_installs_it(bare, monkeypatch):
    monkeypatch.setattr(packages, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LocalError) as caught:
        packages.install({"nft": "nftables", "ip": "iproute2"}, lambda _: None)
    assert caught.value.message == "missing: iproute2, nftables"
    assert "apt-get install iproute2 nftables" in caught.value.next_step


def test_tools_that_are_there_are_not_installed(monkeypatch):
    monkeypatch.setattr(packages, "which", lambda name: f"/usr/bin/{name}")
    packages.install({"nft": "nftables"}, pytest.fail)


def test_a_complete_runtime_of_the_machine_is_taken(monkeypatch, tmp_path):
    for name in (*packages.RUNTIME_PROGRAMS, *packages.PLUGINS):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(packages, "which", lambda name: str(tmp_path / name))
    monkeypatch.setattr(packages, "PLUGIN_PLACES", (str(tmp_path),))
    assert packages.container_runtime(pytest.fail) == packages.Runtime(tmp_path, tmp_path)


def test_a_base_image_takes_only_the_sources_of_its_own_release(monkeypatch):
    targets = (
        "http://mirror.invalid/debian/ bookworm main\n"
        "http://mirror.invalid/debian-security/ bookworm-security main\n"
        "http://mirror.invalid/debian/ bookworm main\n"
        "http://vendor.invalid/apt/ cloud-bookworm main\n"
    )
    monkeypatch.setattr(bases, "run", lambda _: targets)
    assert bases._sources("bookworm").splitlines() == [
        "deb http://mirror.invalid/debian/ bookworm main",
        "deb http://mirror.invalid/debian-security/ bookworm-security main",
    ]


def test_every_image_has_its_dockerfile_and_names_no_registry():
    for image in images.IMAGES:
        assert (image.directory / "Dockerfile").exists()
        assert image.reference.startswith("quintet.local/")
    lock = (images.Image("", "json-server").directory / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
