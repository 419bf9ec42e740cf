import errno

import pytest

from quintet.local.build import programs, versions
from quintet.local.build.programs import _failure, content_hash
from quintet.local.errors import explain_os_error


@pytest.fixture
def module(tmp_path):
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "dns").mkdir()
    (tmp_path / "dns/main.go").write_text("package main\n")
    return tmp_path


def test_content_hash_of_same_files_is_equal(module):
    assert content_hash(module) == content_hash(module)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "go.mod").write_text("module y\n"),
        lambda folder: (folder / "dns/main.go").rename(folder / "dns/other.go"),
        lambda folder: (folder / "new.go").write_text(""),
        lambda folder: (folder / "dns/main.go").unlink(),
    ],
    ids=["content", "name", "a new file", "a removed file"],
)
def test_content_hash_changes_with_any_change_of_the_module(module, change):
    before = content_hash(module)
    change(module)
    assert content_hash(module) != before


def test_content_hash_differs_between_platforms(module):
    assert content_hash(module, "Linux", "x86_64") != content_hash(module, "Linux", "aarch64")


@pytest.mark.parametrize(
    ("lines", "want_message", "want_step"),
    [
        (["x: write /tmp/a: no space left on device"], "the disk became full", "free about"),
        (["k8s.io/api: dial tcp: lookup proxy: no such host"], "could not be downloaded", "GOPROXY"),
        (["# quintet.dev/kube", "./main.go:3:2: undefined: x"], "./main.go:3:2: undefined: x", "go build"),
    ],
    ids=["a full disk", "no network", "a compile error"],
)
def test_failed_build_raises_one_line_message_with_next_step(tmp_path, lines, want_message, want_step):
    error = _failure(lines, tmp_path / "unfinished/kube")
    assert want_message in error.message
    assert "\n" not in error.message
    assert want_step in error.next_step


def test_os_error_of_full_disk_is_explained():
    error = explain_os_error(OSError(errno.ENOSPC, "No space left on device", "/cache/x"))
    assert error.message == "the disk is full (/cache/x)"


def test_cached_build_product_is_used_without_go(monkeypatch, tmp_path):
    monkeypatch.delenv(versions.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(programs, "find_go", lambda _: pytest.fail("looked for Go"))
    key = content_hash(versions.SOURCES, programs.platform.system(), programs.platform.machine())
    (tmp_path / f"quintet/kube-{key}").mkdir(parents=True)
    assert programs.build_kubernetes(pytest.fail).name == f"kube-{key}"


def test_build_with_unwritable_cache_fails_with_one_line_message(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(programs.LocalError) as caught:
        programs.build_kubernetes(lambda _: None)
    assert str(tmp_path) in caught.value.message
