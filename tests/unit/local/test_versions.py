"""Which versions of Kubernetes a cluster can be of."""

import re

import pytest

from quintet.local.build import programs, versions
from quintet.local.build.versions import DEFAULT, VERSIONS
from quintet.local.errors import LocalError


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.delenv(versions.VARIABLE, raising=False)


def requirements(version):
    return dict(re.findall(r"^\s*(\S+) (v\S+)", version.modfile.read_text(), re.MULTILINE))


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_a_version_is_built_from_modules_of_its_own_minor_version(version):
    found = requirements(version)
    assert version.release.rpartition(".")[0] == version.name
    minor = version.name.split(".")[1]
    staging = {name: each for name, each in found.items() if re.fullmatch(r"v0\.\d\d\.\d+", each)}
    ours = {name: each for name, each in staging.items() if name.startswith("k8s.io/")}
    assert len(ours) > 25, ours
    assert {each.split(".")[1] for each in ours.values()} == {minor}, ours


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_every_module_of_a_version_is_locked(version):
    locked = (version.modules / "go.sum").read_text()
    missing = [
        f"{name} {each}"
        for name, each in requirements(version).items()
        if f"{name} {each}/go.mod h1:" not in locked
    ]
    assert missing == []  # fmt: skip


def test_the_argument_is_heard_before_the_environment_and_that_before_the_default(monkeypatch):
    assert versions.find_version() == DEFAULT
    monkeypatch.setenv(versions.VARIABLE, "1.36")
    assert versions.find_version().name == "1.36"
    assert versions.find_version("1.37").name == "1.37"


def test_an_empty_variable_asks_for_nothing(monkeypatch):
    monkeypatch.setenv(versions.VARIABLE, "")
    assert versions.requested_version() is None
    assert versions.find_version() == DEFAULT


def test_an_unknown_version_is_answered_with_those_that_there_are():
    with pytest.raises(LocalError) as caught:
        versions.find_version("1.12")
    assert caught.value.message == "Kubernetes 1.12 cannot be built here"
    assert caught.value.next_step == f"choose one of {', '.join(VERSIONS)}"


def test_every_version_has_a_product_of_its_own():
    keys = {programs._Program("kube", ".", version).key() for version in VERSIONS.values()}
    assert len(keys) == len(VERSIONS)


def test_a_build_says_which_version_it_is_of_and_reads_its_modules(tmp_path):
    for version in VERSIONS.values():
        command = programs._command(
            tmp_path / "go", programs._Program("kube", ".", version), tmp_path / "kube"
        )
        assert f"-modfile={version.modules / 'go.mod'}" in command
        assert f"gitVersion=v{version.release} " in command[command.index("-ldflags") + 1]
