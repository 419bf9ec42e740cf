import os
import subprocess

import pytest

from quintet.local.build import packages, versions
from quintet.local.errors import LocalError
from quintet.local.images import bases, catalog


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any program on PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "find_program", lambda _: None)
    return tmp_path


def test_missing_runtime_without_apt_raises_error_that_names_packages(bare):
    with pytest.raises(LocalError) as caught:
        packages.find_container_runtime(lambda _: None)
    assert caught.value.message == "missing: containerd, runc, and apt-get is not available to install it"
    assert caught.value.next_step == "install containerd, runc"


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


CONTAINERD = "containerd github.com/containerd/containerd v{} 4e1fe7492b9df85914c389d1f15a3ceedbb280ac"
RUNC = "runc version {}\ncommit: v1.1.12-0-g51d5e946\nspec: 1.0.2-dev"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with containerd, runc and plugins in different folders, and unpacked Debian packages."""
    debian, folders = tmp_path / "debian", {"runc": tmp_path / "sbin"}
    for name in ("bin", "sbin", "cni", "debian/usr/bin", "debian/usr/sbin"):
        (tmp_path / name).mkdir(parents=True)
    for name in packages.PLUGINS:
        (tmp_path / "cni" / name).touch()
    (debian / "usr/sbin/runc").touch()
    monkeypatch.setattr(
        packages, "find_program", lambda name: str(folders.get(name, tmp_path / "bin") / name)
    )
    monkeypatch.setattr(packages, "PLUGIN_FOLDERS", (str(tmp_path / "cni"),))
    monkeypatch.setattr(packages, "unpack_packages", lambda *_: debian)

    def install(containerd, runc):
        for name in ("containerd", "containerd-shim-runc-v2", "ctr", "runc"):
            program = folders.get(name, tmp_path / "bin") / name
            said = (RUNC if name == "runc" else CONTAINERD).format(runc if name == "runc" else containerd)
            program.write_text(f"#!/bin/sh\necho '{said}'\n")
            program.chmod(0o755)
        return tmp_path

    return install


@pytest.mark.parametrize(("containerd", "runc"), [("1.6.20~ds1", "1.1.5+ds1"), ("2.1.3", "1.3.0-rc.1")])
def test_container_runtime_can_be_spread_over_folders(machine, containerd, runc):
    place = machine(containerd, runc)
    found = packages.find_container_runtime(pytest.fail)
    assert (found.programs, found.runc, found.plugins) == (place / "bin", place / "sbin/runc", place / "cni")


@pytest.mark.parametrize(
    ("containerd", "runc", "want", "want_said"),
    [
        ("1.4.13", "1.1.5", ("debian/usr/bin", "sbin/runc"), "is version 1.4, a node needs 1.6 or newer"),
        ("1.7.0", "1.0.3", ("bin", "debian/usr/sbin/runc"), "is version 1.0, a node needs 1.1 or newer"),
        ("unknown", "1.1.5", ("debian/usr/bin", "sbin/runc"), "is of an unknown version"),
    ],
    ids=["old containerd", "old runc", "unknown containerd"],
)
def test_outdated_runtime_program_is_replaced_by_debian_package(machine, containerd, runc, want, want_said):
    place, said = machine(containerd, runc), []
    found = packages.find_container_runtime(said.append)
    assert (found.programs, found.runc) == (place / want[0], place / want[1])
    assert want_said in "".join(said)


def test_kubernetes_versions_support_minimum_containerd():
    """The kubelet supports containerd before 2.0 up to version 1.37."""
    newest = max(int(name.partition(".")[2]) for name in versions.VERSIONS)
    assert newest < 38 or packages.MINIMUM_CONTAINERD >= (2, 0)


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
