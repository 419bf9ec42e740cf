"""A release: complete, the same every time, and of the version that the source says."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
import yaml

from quintet import __version__
from quintet.components import COMPONENTS
from quintet.manifests.installation import KIAGNOSE
from quintet.manifests.operator import operator
from quintet.manifests.release import archive, main, release

ALL = tuple(COMPONENTS.values())


@pytest.fixture(scope="module")
def made():
    return release(ALL, "aiohttp==1 \\\n --hash=sha256:" + "a" * 64)


def documents(content):
    return list(yaml.safe_load_all(content))


def test_one_file_installs_what_every_other_way_installs(made):
    assert documents(made[Path("install.yaml")]) == operator(ALL)
    assert documents(made[Path("kiagnose-install.yaml")]) == operator(ALL, KIAGNOSE)


def test_it_is_laid_out_as_operatorhub_wants_it(made):
    below = {path.as_posix() for path in made if path.parts[0] == "operators"}
    root = f"operators/quintet/{__version__}"
    assert below >= {
        "operators/quintet/ci.yaml",
        f"{root}/manifests/quintet.clusterserviceversion.yaml",
        f"{root}/manifests/quintets.quintet.dev.crd.yaml",
        f"{root}/metadata/annotations.yaml",
        f"{root}/tests/scorecard/config.yaml",
    }


def test_the_chart_unpacks_into_one_folder(made):
    with tarfile.open(fileobj=io.BytesIO(made[Path(f"quintet-{__version__}.tgz")])) as packed:
        names = packed.getnames()
    assert "quintet/Chart.yaml" in names
    assert {name.split("/")[0] for name in names} == {"quintet"}


def test_every_file_has_its_sum(made):
    sums = dict(reversed(line.split("  ")) for line in made[Path("SHA256SUMS")].decode().splitlines())
    others = {path: content for path, content in made.items() if path.name != "SHA256SUMS"}
    assert sums == {path.as_posix(): hashlib.sha256(content).hexdigest() for path, content in others.items()}


def test_a_second_time_gives_the_same_bytes(made):
    assert release(ALL, "aiohttp==1 \\\n --hash=sha256:" + "a" * 64) == made


def test_an_archive_does_not_depend_on_the_order_of_its_files():
    files = {Path("b"): b"2", Path("a"): b"1"}
    assert archive(files) == archive(dict(reversed(files.items())))


def test_a_version_that_is_not_in_the_source_is_refused(tmp_path, capsys):
    assert main(["9.9.9", "--output", str(tmp_path)]) == 1
    assert "next step: change it in src/quintet/__init__.py" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_debians_packages_come_out_of_the_archive_of_a_base(tmp_path):
    base, requirements = tmp_path / "base.tar", tmp_path / "runtime.txt"
    requirements.write_text("aiohttp==1\n")
    with tarfile.open(base, "w") as packed:
        content = b"Package: dash\nStatus: install ok installed\nVersion: 1\n"
        entry = tarfile.TarInfo("./var/lib/dpkg/status")
        entry.size = len(content)
        packed.addfile(entry, io.BytesIO(content))
    arguments = ["--output", str(tmp_path), "--requirements", str(requirements), "--base", str(base)]
    assert main([__version__, *arguments]) == 0
    assert "pkg:deb/debian/dash@1" in (tmp_path / "sbom.cdx.json").read_text()
