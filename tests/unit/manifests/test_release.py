"""Files of an installation in a release: complete, and the same every time."""

import io
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from kit.manifests import yamltext
from quintet import __version__
from quintet.cli.verbs.install.install import install
from quintet.components import COMPONENTS
from quintet.manifests.installation import KIAGNOSE
from quintet.manifests.olm import Release
from quintet.manifests.operator import operator
from quintet.manifests.release import archive, release

ALL = tuple(COMPONENTS.values())


@pytest.fixture(scope="module")
def made():
    return release(ALL)


def documents(content):
    return list(yamltext.load_all(content))


def test_single_file_manifest_equals_operator_objects(made):
    assert documents(made[Path("install.yaml")]) == operator(ALL)
    assert documents(made[Path("kiagnose-install.yaml")]) == operator(ALL, KIAGNOSE)


def test_install_dry_run_prints_single_file_manifest(made):
    done = CliRunner().invoke(install, ["--dry-run"])
    assert done.exit_code == 0, done.output
    want = [*documents(made[Path("install.yaml")]), *documents(made[Path("quintet.yaml")])]
    assert [body for body in documents(done.stdout) if body] == want


def test_release_has_operatorhub_layout(made):
    below = {path.as_posix() for path in made if path.parts[0] == "operators"}
    root = f"operators/quintet/{__version__}"
    assert below >= {
        "operators/quintet/ci.yaml",
        f"{root}/manifests/quintet.clusterserviceversion.yaml",
        f"{root}/manifests/quintets.quintet.dev.crd.yaml",
        f"{root}/metadata/annotations.yaml",
        f"{root}/tests/scorecard/config.yaml",
    }


def test_bundle_dockerfile_copies_existing_folders(made):
    copied = [
        line.split()[1]
        for line in made[Path("bundle/bundle.Dockerfile")].decode().splitlines()
        if line.startswith("COPY")
    ]
    for folder in copied:
        assert [path for path in made if path.is_relative_to(Path("bundle") / folder)], folder


def test_chart_archive_has_one_root_folder(made):
    with tarfile.open(fileobj=io.BytesIO(made[Path(f"quintet-{__version__}.tgz")])) as packed:
        names = packed.getnames()
    assert "quintet/Chart.yaml" in names
    assert {name.split("/")[0] for name in names} == {"quintet"}


def test_release_built_twice_is_byte_identical(made):
    assert release(ALL) == made


def test_scorecard_image_is_configurable():
    path = Path("bundle/tests/scorecard/config.yaml")
    (config,) = documents(release(ALL, Release(scorecard="registry.example.com/scorecard:1"))[path])
    (stage,) = config["stages"]
    assert {test["image"] for test in stage["tests"]} == {"registry.example.com/scorecard:1"}


def test_archive_does_not_depend_on_file_order():
    files = {Path("b"): b"2", Path("a"): b"1"}
    assert archive(files) == archive(dict(reversed(files.items())))
