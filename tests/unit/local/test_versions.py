"""The Kubernetes versions that a cluster can have."""

import re

import pytest

from quintet.local.build import programs, toolchain, versions
from quintet.local.build.versions import CONTAINERD, DEFAULT, VERSIONS
from quintet.local.errors import LocalError


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.delenv(versions.VARIABLE, raising=False)


def requirements(version):
    return dict(re.findall(r"^\s*(\S+) (v\S+)", version.modfile.read_text(), re.MULTILINE))


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_version_go_mod_requires_modules_of_same_minor_version(version):
    found = requirements(version)
    assert VERSIONS[version.name] == version
    minor = version.name.split(".")[1]
    staging = {name: each for name, each in found.items() if re.fullmatch(r"v0\.\d\d\.\d+", each)}
    ours = {name: each for name, each in staging.items() if name.startswith("k8s.io/")}
    assert len(ours) > 25, ours
    assert {each.split(".")[1] for each in ours.values()} == {minor}, ours


MODULE_SETS = [pytest.param(each, id=each.title) for each in (*VERSIONS.values(), CONTAINERD)]


@pytest.mark.parametrize("modules", MODULE_SETS)
def test_go_mod_needs_no_newer_go_than_the_oldest_that_is_used(modules):
    """Go would stop, because it may not download another toolchain."""
    found = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", modules.modfile.read_text(), re.MULTILINE)
    assert found is not None
    assert tuple(int(each or 0) for each in found.groups()) <= (*toolchain.MINIMUM, 0)


@pytest.mark.parametrize("version", MODULE_SETS)
def test_go_sum_covers_every_module(version):
    locked = (version.modules / "go.sum").read_text()
    missing = [
        f"{name} {each}"
        for name, each in requirements(version).items()
        if f"{name} {each}/go.mod h1:" not in locked
    ]
    assert missing == []  # fmt: skip


def test_find_version_prefers_argument_then_environment_then_default(monkeypatch):
    assert versions.find_version() == DEFAULT
    monkeypatch.setenv(versions.VARIABLE, "1.36")
    assert versions.find_version().name == "1.36"
    assert versions.find_version("1.37").name == "1.37"


def test_find_version_ignores_empty_environment_variable(monkeypatch):
    monkeypatch.setenv(versions.VARIABLE, "")
    assert versions.requested_version() is None
    assert versions.find_version() == DEFAULT


def test_find_version_with_unknown_name_lists_known_versions():
    with pytest.raises(LocalError) as caught:
        versions.find_version("1.12")
    assert caught.value.message == "Kubernetes 1.12 cannot be built here"
    assert caught.value.next_step == f"choose one of {', '.join(VERSIONS)}"


def test_build_products_of_versions_have_different_keys():
    keys = {programs._Program("kube", (".",), version).key() for version in VERSIONS.values()}
    assert len(keys) == len(VERSIONS)


def test_build_command_uses_release_and_go_mod_of_version(tmp_path):
    for version in VERSIONS.values():
        command = programs._command(
            tmp_path / "go", programs._Program("kube", (".",), version), tmp_path / "kube"
        )
        assert f"-modfile={version.modules / 'go.mod'}" in command
        assert f"gitVersion=v{version.release} " in command[command.index("-ldflags") + 1]
