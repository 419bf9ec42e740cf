import errno
import os
import platform
import threading

import pytest

from quintet.local.errors import LocalError
from quintet.local.images import build, catalog
from quintet.local.paths import (
    cache_directory,
    cluster_directory,
    clusters_directory,
    hold_lock,
    name_for_platform,
    write_file,
)


def test_cache_and_state_directories_follow_xdg_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cache_directory() == tmp_path / "cache/quintet"
    assert clusters_directory() == tmp_path / "state/quintet/clusters"


@pytest.mark.parametrize("value", ["", "relative/path"], ids=["an empty value", "a relative path"])
def test_relative_or_empty_xdg_value_falls_back_to_home(monkeypatch, tmp_path, value):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_directory() == tmp_path / ".cache/quintet"


@pytest.mark.parametrize(
    "name",
    ["", "Upper", "a/b", "..", "-a", "a-", "a" * 41, "a b", "a\n"],
    ids=["empty", "upper case", "slash", "parent", "dash first", "dash last", "too long", "space", "newline"],
)
def test_invalid_cluster_name_is_rejected(name):
    with pytest.raises(LocalError, match="not a cluster name"):
        cluster_directory(name)


@pytest.mark.parametrize(
    ("system", "machine", "want"),
    [
        ("Linux", "x86_64", "go"),
        ("Linux", "aarch64", "go-linux-aarch64"),
        ("Darwin", "arm64", "go-darwin-arm64"),
    ],
)
def test_cache_name_has_platform_suffix(monkeypatch, system, machine, want):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert name_for_platform("go") == want


def test_image_archives_of_two_architectures_have_different_names(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_build", lambda *arguments: arguments[-2].write_text("built"))
    kept = set()
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        kept.add(build.build_archive(catalog.IMAGES[0], pytest.fail))
    assert len(kept) == 2


def test_write_file_keeps_old_content_when_write_fails(monkeypatch, tmp_path):
    path = tmp_path / "record"
    write_file(path, "old")

    def full(_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_hold_lock_excludes_others_and_removes_lock_file(tmp_path):
    path = tmp_path / "some.lock"
    inside, most, count = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most, count
        for _ in range(50):
            with hold_lock(path):
                with guard:
                    inside += 1
                    most = max(most, inside)
                count += 1
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, count) == (1, 200)
    assert list(tmp_path.iterdir()) == []
