"""A release built twice is byte-identical, lists the content of each image, and its package works.

It is built from two copies of the source in different folders, with two empty caches and different user settings. Go's
compiler cache and the download caches are shared.
"""

import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.install.checkout import ROOT, copy_source
from quintet import __version__
from quintet.local.build.toolchain import find_go
from quintet.local.images import catalog
from quintet.local.images.archives import LayerFile, open_archive
from quintet.local.paths import cache_directory
from quintet.release.sbom import python_packages

IS_ROOT = platform.system() == "Linux" and os.geteuid() == 0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not IS_ROOT, reason="images are built by root on Linux"),
]
PROVIDES = re.compile(r"^Provides: (.+)$", re.MULTILINE)
NAMES = {image.reference: image for image in catalog.IMAGES}
SHARED = {
    "GOCACHE": str(cache_directory().parent / "go-build"),
    "PIP_CACHE_DIR": str(cache_directory().parent / "pip"),
}
# User settings that must not affect the result: umask, time zone, language.
USERS = ((0o022, "UTC", "C"), (0o077, "Asia/Tokyo", "de_DE.UTF-8"))


@dataclass(frozen=True)
class Made:
    """A release and the folder in which it was built."""

    dist: Path

    @property
    def sums(self) -> dict[str, str]:
        lines = (self.dist / "SHA256SUMS").read_text().splitlines()
        return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}

    @property
    def images(self) -> dict[str, dict]:
        return {each["reference"]: each for each in json.loads((self.dist / "images.json").read_text())}

    def archive(self, reference: str) -> Path:
        return self.dist / self.images[reference]["archive"]

    def packages(self, reference: str, ecosystem: str) -> set[tuple[str, str]]:
        """Name and version of what the SBOM lists."""
        path = self.dist / "sbom" / f"{Path(self.images[reference]['archive']).stem}.cdx.json"
        listed = json.loads(path.read_text())["components"]
        return {
            (each["name"], each["version"])
            for each in listed
            if each.get("purl", "").startswith(f"pkg:{ecosystem}/")
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    source = copy_source(ROOT, tmp_path_factory.mktemp("source") / "quintet")
    releases = []
    for number, (mask, zone, language) in enumerate(USERS):
        place = tmp_path_factory.mktemp(f"release{number}")
        copy = copy_source(source, place / f"copy{number}")
        own = {
            "XDG_CACHE_HOME": str(place / "cache"),
            "TZ": zone,
            "LANG": language,
            "PYTHONPATH": str(copy / "src"),
        }
        done = subprocess.run(
            [sys.executable, "-P", "-m", "quintet.release", __version__],
            cwd=copy, env=os.environ | SHARED | own, umask=mask, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        releases.append(Made(copy / "dist"))
    return releases


@pytest.fixture(scope="module")
def release(made):
    return made[0]


@pytest.mark.parametrize("reference", NAMES)
def test_image_built_twice_has_same_digest(made, reference):
    one, two = (each.images[reference] for each in made)
    sys.stdout.write(f"{reference} {one['digest']} {one['size'] / 2**20:.1f} MiB\n")
    assert one == two


def test_release_made_twice_is_byte_identical(made):
    one, two = (each.sums for each in made)
    assert {path for path in one.keys() | two.keys() if one.get(path) != two.get(path)} == set()


def test_release_contains_all_files_with_checksums(release):
    there = {path.relative_to(release.dist).as_posix() for path in release.dist.rglob("*") if path.is_file()}
    assert there == {*release.sums, "SHA256SUMS"}
    names = [Path(release.images[reference]["archive"]).stem for reference in NAMES]
    assert there >= {
        "install.yaml", "quintet.yaml", "kiagnose-install.yaml", "kiagnose-quintet.yaml", f"quintet-{__version__}.tgz",
        "catalog/quintet/catalog.yaml", "bundle/metadata/annotations.yaml", "operators/quintet/ci.yaml",
        f"python/quintet-{__version__}-py3-none-any.whl", f"python/quintet-{__version__}.tar.gz", "sbom/python.cdx.json",
        "images.json", *(f"images/{name}.tar" for name in names), *(f"sbom/{name}.cdx.json" for name in names),
    }  # fmt: skip


@pytest.mark.parametrize("reference", NAMES)
def test_listed_digest_equals_that_of_archive(release, reference):
    with open_archive(release.archive(reference)) as archive:
        assert (archive.digest, archive.size) == (
            release.images[reference]["digest"],
            release.images[reference]["size"],
        )


@pytest.mark.parametrize("reference", NAMES)
def test_sbom_lists_all_debian_packages(release, reference):
    """Every Debian package has a folder below /usr/share/doc; some also have those of packages they replace."""
    folders, provided = set(), set()
    with open_archive(release.archive(reference)) as archive:
        for member in archive.members():
            path = Path(member.path).parts
            if path[:3] == ("usr", "share", "doc") and len(path) > 3:
                folders.add(path[3])
            if path[:-1] == ("var", "lib", "dpkg", "status.d"):
                text = member.content.read().decode()
                provided |= {each.split()[0] for line in PROVIDES.findall(text) for each in line.split(",")}
    listed = {name for name, _ in release.packages(reference, "deb")}
    assert folders - provided <= listed <= folders
    assert bool(listed) == (reference != catalog.PAUSE)


@pytest.mark.parametrize("reference", NAMES)
def test_sbom_lists_locked_python_packages(release, reference):
    locked = {
        (each.name, each.version) for each in python_packages((ROOT / "requirements/runtime.txt").read_text())
    }
    want = {*locked, ("quintet", __version__)} if reference == catalog.QUINTET else set()
    assert release.packages(reference, "pypi") == want


@pytest.mark.parametrize("reference", NAMES)
def test_sbom_lists_locked_npm_packages(release, reference):
    lock = json.loads((ROOT / "images/json-server/package-lock.json").read_text())["packages"]
    locked = {
        (path.rpartition("node_modules/")[2], entry["version"])
        for path, entry in lock.items()
        if path and not entry.get("dev")
    }
    assert release.packages(reference, "npm") == (locked if reference == catalog.JSON_SERVER else set())


@pytest.mark.parametrize("reference", NAMES)
def test_sbom_lists_go_modules_of_programs(release, reference, tmp_path):
    go = find_go(lambda _: None)
    want = set()
    with open_archive(release.archive(reference)) as archive:
        for member in archive.members():
            if isinstance(member, LayerFile) and member.mode & 0o111:
                path = tmp_path / "program"
                path.write_bytes(member.content.read())
                path.chmod(0o755)
                said = subprocess.run([go, "version", "-m", path], capture_output=True, text=True).stdout
                want |= modules_in(said)
    assert release.packages(reference, "golang") == want
    assert bool(want) == (reference in (catalog.PAUSE, catalog.NATS))


def modules_in(said):
    """Parse the output of `go version -m`: the Go version, then one line per module."""
    if not said:
        return set()
    head, *lines = said.splitlines()
    found = {("stdlib", head.split()[-1].removeprefix("go"))}
    for word, *rest in (line.split() for line in lines):
        if word in ("mod", "dep") and rest[1] != "(devel)":
            found.add((rest[0], rest[1]))
    return found


def test_sbom_of_every_debian_image_names_debian(release):
    for reference in set(NAMES) - {catalog.PAUSE}:
        stem = Path(release.images[reference]["archive"]).stem
        components = json.loads((release.dist / f"sbom/{stem}.cdx.json").read_text())["components"]
        assert [each["name"] for each in components if each["type"] == "operating-system"] == ["debian"], (
            reference
        )


@pytest.mark.parametrize("reference", NAMES)
def test_image_contains_nothing_of_build_machine(release, reference):
    """Builders leave empty files where a container mounts its own."""
    ours = (
        "etc/hostname",
        "etc/hosts",
        "etc/resolv.conf",
        "etc/apt/sources.list",
        "var/log/",
        "var/cache/apt/a",
    )
    left = {}
    with open_archive(release.archive(reference)) as archive:
        for member in archive.members():
            if isinstance(member, LayerFile) and member.path.startswith(ours):
                left[member.path] = member.content.read()
    assert {path: content for path, content in left.items() if content} == {}


def test_source_package_builds_same_wheel(release, tmp_path):
    """A wheel built from the source package equals the wheel of the release."""
    packed = release.dist / f"python/quintet-{__version__}.tar.gz"
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as files:
        files.extractall(tmp_path, filter="data")
    build = "import sys; from hatchling import build; build.build_wheel(sys.argv[1])"
    environment = os.environ | {"SOURCE_DATE_EPOCH": "315532800"}
    source = tmp_path / f"quintet-{__version__}"
    subprocess.run(
        [sys.executable, "-P", "-c", build, str(tmp_path)], cwd=source, env=environment, check=True
    )
    name = f"quintet-{__version__}-py3-none-any.whl"
    assert (tmp_path / name).read_bytes() == (release.dist / "python" / name).read_bytes()


@pytest.fixture(scope="module")
def installed(release, tmp_path_factory):
    """The command `quintet` of a wheel installed in a new environment outside any checkout."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "venv", with_pip=True)
    pip = [place / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements/runtime.txt"], check=True)
    wheel = release.dist / f"python/quintet-{__version__}-py3-none-any.whl"
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    environment = {"PATH": f"{place}/venv/bin:/usr/bin:/bin", "HOME": str(place)}

    def run(program, *arguments, **options):
        argv = [place / "venv/bin" / program, *arguments]
        return subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, **options)

    return run


def test_installed_package_prints_its_version(installed):
    for name in ("quintet", "kubectl-quintet"):
        assert __version__ in installed(name, "--version").stdout


def test_installed_package_prints_manifest_of_release(installed, release):
    done = installed("quintet", "install", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert (release.dist / "install.yaml").read_text().split("\n", 1)[1] in done.stdout


def test_installed_package_creates_starter_manifest(installed):
    done = installed("quintet", "new", "checkup", "hello", "--full")
    assert done.returncode == 0, done.stderr
    assert "  name: hello\n" in done.stdout


def test_installed_package_completes_kubectl_plugin(installed):
    assert installed("kubectl_complete-quintet", "compl").stdout.startswith("completion\t")


def test_installed_package_validates_objects(installed):
    sample = (ROOT / "config/samples/jsonserver-every-field.yaml").read_text()
    done = installed("quintet", "validate", "-f", "-", input=sample)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = installed("quintet", "validate", "-f", "-", input=sample.replace("replicas:", "replica:"))
    assert wrong.returncode == 1
    assert "replica" in wrong.stdout + wrong.stderr


def test_installed_package_contains_all_image_sources(installed, release):
    script = (
        "from quintet.local.images import catalog; "
        "print(*(image.reference + ' ' + image.base + ' ' + image.content.digest() for image in catalog.IMAGES), sep='\\n')"
    )
    shipped, source = installed("python", "-c", script), subprocess.run(
        [sys.executable, "-P", "-c", script], env=os.environ | {"PYTHONPATH": str(release.dist.parent / "src")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert shipped.returncode == 0, shipped.stderr
    assert shipped.stdout == source.stdout
    assert len(shipped.stdout.splitlines()) == len(catalog.IMAGES)
