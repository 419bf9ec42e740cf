"""The command that writes a release: complete, with checksums, of the right version, without old files."""

import hashlib
import json
import tarfile
import zipfile

import pytest

from kit.install.checkout import ROOT, copy_source
from kit.manifests import yamltext
from quintet import __version__
from quintet.components import COMPONENTS
from quintet.manifests import olm
from quintet.release import images, packages
from quintet.release.__main__ import main


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return copy_source(ROOT, tmp_path_factory.mktemp("source") / "quintet")


@pytest.fixture(scope="module")
def package(tmp_path_factory, source):
    """The folder of a release with only the Python package."""
    folder = tmp_path_factory.mktemp("release")
    written(folder, "--only", "python", root=source)
    return folder


def written(folder, *options, root=ROOT):
    assert main([__version__, "--output", str(folder), "--root", str(root), *options]) == 0
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def sums(folder):
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def test_checksums_cover_every_release_file(tmp_path):
    there = written(tmp_path, "--only", "manifests")
    assert there > {"install.yaml", "bundle/bundle.Dockerfile", f"quintet-{__version__}.tgz"}
    assert sums(tmp_path) == {
        path: hashlib.sha256((tmp_path / path).read_bytes()).hexdigest() for path in there - {"SHA256SUMS"}
    }


def test_release_removes_files_of_earlier_release_and_keeps_others(tmp_path):
    (tmp_path / "old").mkdir()
    for name in ("old/install.yaml", "notes.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  old/install.yaml\n{'0' * 64}  never-there\n")
    there = written(tmp_path, "--only", "manifests")
    assert "old/install.yaml" not in there
    assert "notes.txt" in there


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x"])
def test_release_refuses_checksum_entry_outside_output_folder(tmp_path, path):
    output, outside = tmp_path / "dist", tmp_path / "x"
    output.mkdir()
    outside.write_text("kept")
    (output / "SHA256SUMS").write_text(f"{'0' * 64}  {path}\n")
    assert main([__version__, "--output", str(output), "--only", "manifests"]) == 1
    assert outside.read_text() == "kept"


def test_release_of_version_other_than_source_is_refused(tmp_path, capsys):
    assert main(["9.9.9", "--output", str(tmp_path)]) == 1
    assert "next step: change it in src/quintet/__init__.py" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_release_extends_previous_catalog_even_in_same_folder(tmp_path):
    catalog = tmp_path / "catalog/quintet/catalog.yaml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text(olm.catalog(tuple(COMPONENTS.values()), olm.Release("0.0.9")))
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  catalog/quintet/catalog.yaml\n")
    written(tmp_path, "--only", "manifests", "--replaces", "0.0.9", "--catalog", str(catalog))
    found = list(yamltext.load_all(catalog.read_text()))
    names = [each["name"] for each in found if each["schema"] == "olm.bundle"]
    assert names == ["quintet.v0.0.9", f"quintet.v{__version__}"]


def test_release_with_missing_catalog_names_it(tmp_path, capsys):
    options = ["--output", str(tmp_path), "--only", "manifests", "--catalog", str(tmp_path / "nowhere")]
    assert main([__version__, *options]) == 1
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert "next step: correct --catalog" in said


def test_release_skips_unbuildable_images_and_reports_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(images, "reason_not_buildable", lambda: "building needs root")
    monkeypatch.setattr(packages, "write_packages", lambda *_: None)
    there = written(tmp_path)
    assert "skipped images, their SBOMs and images.json: building needs root" in capsys.readouterr().err
    assert "install.yaml" in there
    assert not [path for path in there if path.startswith("images")]


def test_wheel_contains_command_resources_and_is_reproducible(tmp_path, source, package):
    written(tmp_path, "--only", "python", root=source)
    assert sums(tmp_path) == sums(package)
    with zipfile.ZipFile(package / f"python/quintet-{__version__}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    share = "quintet/local/share"
    assert names > {
        "quintet/py.typed", "quintet/apis/kubernetes.json", f"{share}/requirements/runtime.txt",
        f"{share}/images/base/finish", f"{share}/config/operator/operator.yaml",
    }  # fmt: skip
    assert not [name for name in names if "__pycache__" in name or "node_modules" in name]
    with tarfile.open(package / f"python/quintet-{__version__}.tar.gz") as source:
        assert f"quintet-{__version__}/pyproject.toml" in source.getnames()


def test_python_sbom_describes_quintet_package(package):
    body = json.loads((package / "sbom/python.cdx.json").read_text())
    assert body["metadata"]["component"]["purl"] == f"pkg:pypi/quintet@{__version__}"
    assert "msgspec" in {each["name"] for each in body["components"]}
