import os
import subprocess

import pytest

from quintet.local.build import packages
from quintet.local.errors import LocalError
from quintet.local.images import bases, catalog


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any program on PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "find_program", lambda _: None)
    return tmp_path


def test_missing_tool_without_root_raises_error_with_install_command(bare, monkeypatch):
    monkeypatch.setattr(
        packages, "find_program", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LocalError) as caught:
        packages.install_tools({"nft": "nftables", "ip": "iproute2"}, lambda _: None)
    assert caught.value.message == "missing: iproute2, nftables"
    assert "apt-get install iproute2 nftables" in caught.value.next_step


def test_install_tools_skips_present_tools(monkeypatch):
    monkeypatch.setattr(packages, "find_program", lambda name: f"/usr/bin/{name}")
    packages.install_tools({"nft": "nftables"}, pytest.fail)


def test_apt_waits_for_lock_of_another_apt(bare, monkeypatch):
    calls = []

    def run(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(
        packages, "find_program", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(packages.subprocess, "run", run)
    packages.install_tools({"nft": "nftables"}, lambda _: None)
    assert [command[:3] for command in calls] == [["apt-get", "-o", "DPkg::Lock::Timeout=300"]]
    assert "--no-remove" in calls[0]


def test_base_image_uses_package_sources_of_its_release_only(monkeypatch):
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


def test_every_image_has_dockerfile_and_no_registry():
    for image in catalog.IMAGES:
        assert (image.directory / "Dockerfile").exists()
        assert image.reference.startswith("quintet.local/")
    lock = (catalog.Image("", "json-server").directory / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
