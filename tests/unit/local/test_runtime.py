"""The container runtime of nodes: found on the machine, built, or unpacked."""

import pytest

from quintet.local.build import packages, runtime
from quintet.local.build.versions import CONTAINERD
from quintet.local.errors import LocalError

VERSION = "containerd github.com/containerd/containerd v{} 4e1fe7492b9df85914c389d1f15a3ceedbb280ac"
RUNC = "runc version {}\ncommit: v1.1.12-0-g51d5e946\nspec: 1.0.2-dev"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with containerd, runc and plugins in different folders, and unpacked Debian packages."""
    debian, folders = tmp_path / "debian", {"runc": tmp_path / "sbin"}
    for name in ("bin", "sbin", "cni", "debian/usr/bin", "debian/usr/sbin"):
        (tmp_path / name).mkdir(parents=True)
    for name in runtime.PLUGINS:
        (tmp_path / "cni" / name).touch()
    (debian / "usr/sbin/runc").touch()
    monkeypatch.setattr(runtime, "find_program", lambda name: str(folders.get(name, tmp_path / "bin") / name))
    monkeypatch.setattr(runtime, "PLUGIN_FOLDERS", (str(tmp_path / "cni"),))
    monkeypatch.setattr(runtime, "unpack_packages", lambda *_: debian)
    monkeypatch.setattr(runtime, "build_containerd", lambda _: tmp_path / "built")

    def install(containerd, runc):
        for name in ("containerd", "containerd-shim-runc-v2", "ctr", "runc"):
            program = folders.get(name, tmp_path / "bin") / name
            said = (RUNC if name == "runc" else VERSION).format(runc if name == "runc" else containerd)
            program.write_text(f"#!/bin/sh\necho '{said}'\n")
            program.chmod(0o755)
        return tmp_path

    return install


@pytest.mark.parametrize(("containerd", "runc"), [("2.0.5~ds1", "1.1.5+ds1"), ("2.3.1", "1.3.0-rc.1")])
def test_container_runtime_can_be_spread_over_folders(machine, containerd, runc):
    place = machine(containerd, runc)
    found = runtime.find_container_runtime(pytest.fail)
    assert (found.programs, found.runc, found.plugins) == (place / "bin", place / "sbin/runc", place / "cni")


@pytest.mark.parametrize(
    ("containerd", "runc", "want", "want_said"),
    [
        ("1.7.13", "1.1.5", ("built", "sbin/runc"), "is version 1.7, a node needs 2.0 or newer"),
        ("2.1.0", "1.0.3", ("bin", "debian/usr/sbin/runc"), "is version 1.0, a node needs 1.1 or newer"),
        ("unknown", "1.1.5", ("built", "sbin/runc"), "is of an unknown version"),
    ],
    ids=["old containerd", "old runc", "unknown containerd"],
)
def test_outdated_runtime_program_is_replaced(machine, containerd, runc, want, want_said):
    place, said = machine(containerd, runc), []
    found = runtime.find_container_runtime(said.append)
    assert (found.programs, found.runc) == (place / want[0], place / want[1])
    assert want_said in "".join(said)


def test_missing_plugin_is_replaced_by_built_plugins(machine):
    place = machine("2.1.0", "1.1.5")
    (place / "cni" / runtime.PLUGINS[0]).unlink()
    found = runtime.find_container_runtime(pytest.fail)
    assert (found.programs, found.plugins) == (place / "bin", place / "built")


def test_missing_runc_without_apt_raises_error_that_names_the_package(machine, monkeypatch):
    place = machine("2.1.0", "1.1.5")
    (place / "sbin/runc").unlink()
    monkeypatch.setattr(packages, "find_program", lambda _: None)
    monkeypatch.setattr(runtime, "unpack_packages", packages.unpack_packages)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setattr(
        runtime, "find_program", lambda name: None if name == "runc" else str(place / "bin" / name)
    )
    with pytest.raises(LocalError) as caught:
        runtime.find_container_runtime(lambda _: None)
    assert caught.value.message == "missing: runc, and apt-get is not available to install it"
    assert caught.value.next_step == "install runc"


def test_built_folder_has_every_program_of_the_runtime():
    names = {each.rpartition("/")[2] for each in CONTAINERD.tools}
    assert names == {*runtime.CONTAINERD_PROGRAMS, *runtime.PLUGINS}
    assert tuple(map(int, CONTAINERD.name.split("."))) >= runtime.MINIMUM_CONTAINERD
