"""Images are named, cached and staged so that the same input gives the same image."""

import os
from pathlib import Path

import pytest

from kit.install.image_archives import an_image, layer
from quintet import __version__
from quintet.local.images import bases, build, builders, catalog, staging
from quintet.local.images.archives import open_archive
from quintet.local.images.builders import Buildah, Engine
from quintet.local.paths import hold_lock
from quintet.manifests import process


class Recorder:
    """Fake for the programs of builders: records commands and returns prepared output."""

    def __init__(self, *printed: str) -> None:
        self.commands: list[list[str]] = []
        self._printed = list(printed)

    def __call__(self, command: list[str], cwd: Path | None = None) -> str:
        self.commands.append(command)
        return self._printed.pop(0) if self._printed else ""


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "quintet"
    (folder / "local/share").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(staging, "PACKAGE", folder)
    monkeypatch.setattr(staging, "_requirements", lambda: "a==1")
    return folder


def test_manifests_use_the_built_quintet_image():
    assert catalog.QUINTET == process.IMAGE == f"quintet.local/quintet:{__version__}"


def test_image_digest_changes_with_the_source(package):
    before = staging.PythonPackages().digest()
    (package / "new.py").write_text("x = 1\n")
    assert staging.PythonPackages().digest() != before


def test_image_digest_changes_with_the_requirements(package, monkeypatch):
    before = staging.PythonPackages().digest()
    monkeypatch.setattr(staging, "_requirements", lambda: "a==2")
    assert staging.PythonPackages().digest() != before


@pytest.mark.parametrize("path", ["__pycache__/new.pyc", "local/share/config/x.yaml"])
def test_image_digest_ignores_generated_and_shipped_files(package, path):
    before = staging.PythonPackages().digest()
    (package / path).parent.mkdir(parents=True, exist_ok=True)
    (package / path).write_text("x")
    assert staging.PythonPackages().digest() == before


def test_requirements_keep_hashes_and_drop_environment_markers():
    text = staging._requirements()
    assert "msgspec==" in text
    assert "--hash=sha256:" in text
    assert ";" not in text
    assert all(line.endswith("\\") for line in text.splitlines() if "==" in line), "a hash was cut off"


def test_staging_downloads_packages_for_python_of_the_base_image(package, tmp_path, monkeypatch):
    context, fetched = tmp_path / "context", tmp_path / "fetched"
    context.mkdir()
    (fetched / "msgspec").mkdir(parents=True)
    asked = []
    monkeypatch.setattr(staging, "_download_packages", lambda *fits: asked.append(fits[:3]) or fetched)
    program = Recorder("sha256:base\n", "3.13 aarch64 41\n")
    monkeypatch.setattr(builders, "run", program)
    staging.PythonPackages().stage(context, Engine("docker"), lambda _: None)
    assert asked == [("3.13", "aarch64", 41)]
    assert program.commands[0] == ["docker", "build", "--quiet", "--target", "base", str(context)]
    assert program.commands[1][:5] == ["docker", "run", "--rm", "--entrypoint", "python3"]
    staged = sorted(path.name for path in (context / "packages").iterdir())
    assert staged == ["msgspec", "quintet", f"quintet-{__version__}.dist-info"]


def test_pip_downloads_wheels_for_given_python_and_c_library(tmp_path, monkeypatch):
    program = Recorder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def install(command, cwd=None):
        program(command)
        Path(command[-1]).mkdir()

    monkeypatch.setattr(staging, "run", install)
    found = staging._download_packages("3.13", "aarch64", 18, lambda _: None)
    (command,) = program.commands
    assert [each for each in command if each.startswith("--platform")] == [
        "--platform=manylinux_2_18_aarch64",
        "--platform=manylinux_2_17_aarch64",
        "--platform=manylinux2014_aarch64",
    ]
    assert {"--require-hashes", "--only-binary=:all:", "--python-version=3.13"} <= set(command)
    assert staging._download_packages("3.13", "aarch64", 18, pytest.fail) == found, "fetched once"


def test_nats_image_tag_matches_version_in_go_mod():
    locked = (catalog.Image(catalog.NATS, "nats").directory / "go.mod").read_text()
    assert f"github.com/nats-io/nats-server/v2 v{catalog.NATS.rpartition(':')[2]} " in locked


def test_go_programs_of_image_are_built_without_cgo_from_its_go_mod(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(staging, "find_go", lambda progress: Path("/go"))
    monkeypatch.setattr(
        staging, "run", lambda command, cwd, environment: calls.append((command, cwd, environment))
    )
    staging.GoPrograms().stage(tmp_path, Engine("docker"), lambda _: None)
    ((command, folder, environment),) = calls
    assert (command[:2], command[-1], folder) == (["/go", "build"], "tool", tmp_path)
    assert environment["CGO_ENABLED"] == "0"
    assert "-mod=readonly" in environment["GOFLAGS"]


def test_buildah_never_pulls_and_uses_fixed_timestamp(tmp_path, monkeypatch):
    program = Recorder("id\n")
    monkeypatch.setattr(builders, "run", program)
    assert Buildah(tmp_path, "base:1").build(tmp_path, tag="x:1") == "id"
    (command,) = program.commands
    assert command[:3] == ["buildah", "--storage-driver", "overlay"]
    assert "--pull-never" in command
    assert command[command.index("--timestamp") + 1] == "0"
    assert command[command.index("--build-arg") + 1] == "BASE=base:1"


class Daemon:
    """Fake docker: all builds share one set of tags."""

    def __init__(self, between=lambda: None):
        self.tags, self.images, self._between = {}, {}, between

    def run(self, command, cwd=None):
        match command:
            case ["docker", "build", "--quiet", "--tag", tag, context]:
                identity = f"sha256:{len(self.images)}"
                self.images[identity] = (Path(context) / "content").read_bytes()
                self.tags[tag] = identity
                between, self._between = self._between, lambda: None
                between()
                return identity
            case ["docker", "save", "--output", product, tag]:
                an_image(Path(product), layer(("content", self.images[self.tags[tag]])), name=tag)
                return ""
            case _:
                pytest.fail(f"not expected: {command}")


class OfCheckout(catalog.Image):
    """An image of two checkouts: same reference, different folders."""

    @property
    def directory(self):
        return Path(self.folder)


def test_build_saves_own_image_while_another_checkout_builds_same_reference(tmp_path, monkeypatch):
    ours, theirs = (OfCheckout("quintet.local/x:1", str(tmp_path / name)) for name in ("ours", "theirs"))
    for image in (ours, theirs):
        image.directory.mkdir()
        (image.directory / "content").write_text(image.directory.name)
    removed = []

    def build_theirs():
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-theirs"))
        build.build_archive(theirs, lambda _: None)

    daemon = Daemon(build_theirs)
    monkeypatch.setattr(OfCheckout, "cache_name", "x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-ours"))
    monkeypatch.setattr(build, "find_builders", lambda *_, **__: iter([Engine("docker")]))
    monkeypatch.setattr(builders, "run", daemon.run)
    monkeypatch.setattr(builders, "remove_build_tag", lambda engine, tag: removed.append(tag), raising=False)
    with open_archive(build.build_archive(ours, lambda _: None)) as archive:
        (member,) = ((each.path, each.content.read()) for each in archive.members())
        assert member == ("content", b"ours")
        assert archive._json("index.json")["manifests"][0]["annotations"] == {"name": "quintet.local/x:1"}
    assert sorted(removed) == sorted(daemon.tags), "no tag of a build stays"


def test_cached_archive_is_returned_while_another_build_holds_the_lock(tmp_path, monkeypatch):
    image = OfCheckout("quintet.local/x:1", str(tmp_path / "ours"))
    image.directory.mkdir()
    monkeypatch.setattr(OfCheckout, "cache_name", "x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_build", lambda *arguments: arguments[-2].write_text("built"))
    kept = build.build_archive(image, pytest.fail)
    with hold_lock(kept.with_name("x.lock")):
        assert build.build_archive(image, pytest.fail) == kept


def test_image_build_removes_remains_of_killed_build(tmp_path, monkeypatch):
    image = OfCheckout("quintet.local/x:1", str(tmp_path / "ours"))
    image.directory.mkdir()
    monkeypatch.setattr(OfCheckout, "cache_name", "x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_build", lambda *arguments: arguments[-2].write_text("built"))
    left = tmp_path / f"quintet/images/x-{0:016x}.tar-abc.unfinished/storage"
    left.mkdir(parents=True)
    others = tmp_path / f"quintet/images/x-y-{0:016x}.tar-abc.unfinished"
    others.mkdir()
    kept = build.build_archive(image, pytest.fail)
    assert sorted(kept.parent.iterdir()) == sorted([kept, others])


def test_build_context_is_readable_by_every_user(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "folder/data").touch(0o600)
    (tmp_path / "folder/program").touch(0o700)
    build._make_readable(tmp_path)
    modes = [(tmp_path / path).stat().st_mode & 0o777 for path in ("folder", "folder/data", "folder/program")]
    assert modes == [0o755, 0o644, 0o755]


def test_least_recently_used_archives_are_removed(tmp_path):
    image = catalog.Image("quintet.local/x:1", "x")
    for age in range(6):
        path = tmp_path / f"x-{age:016x}.tar"
        path.touch()
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    other = tmp_path / f"x-y-{0:016x}.tar"
    other.touch()
    build._remove_old_archives(tmp_path / "x-.tar", image)
    assert sorted(tmp_path.iterdir()) == [*(tmp_path / f"x-{age:016x}.tar" for age in range(3)), other]


def test_image_in_nested_folder_has_flat_cache_name():
    image = catalog.Image("quintet.local/a/b:1", "a/b", ("dash",), bare=True)
    assert image.cache_name == "a-b"


@pytest.mark.parametrize("other", [("dash",), ("dash", "tar")])
def test_image_base_hash_depends_on_packages_and_variant(other):
    image = catalog.Image("quintet.local/a:1", "a", ("dash",), bare=True)
    assert catalog.Image("quintet.local/a:1", "a", other).base != image.base
    assert catalog.Image("quintet.local/a:1", "a").base == ""


def test_shared_folder_is_staged_by_name_and_changes_the_digest(tmp_path, monkeypatch):
    shared, context = tmp_path / "checkups/lib", tmp_path / "context"
    shared.mkdir(parents=True)
    context.mkdir()
    (shared / "a.sh").write_text("true\n")
    monkeypatch.setattr(staging, "find_resource", lambda name: tmp_path / name)
    folder = staging.SharedFolder("checkups/lib")
    before = folder.digest()
    folder.stage(context, Engine("docker"), lambda _: None)
    assert (context / "lib/a.sh").read_text() == "true\n"
    (shared / "a.sh").write_text("false\n")
    assert folder.digest() != before


def test_bare_base_image_uses_extract_variant(tmp_path, monkeypatch):
    program = Recorder()

    def build(command, cwd=None):
        program(command)
        if command[0] == "mmdebstrap":
            Path(command[-2]).touch()
        return ""

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(bases, "run", build)
    monkeypatch.setattr(bases, "debian_release", lambda: "bookworm")
    bare = bases.build_base(("dash",), lambda _: None, bare=True)
    usual = bases.build_base(("dash",), lambda _: None, bare=False)
    assert bare != usual
    variants = [command[1] for command in program.commands if command[0] == "mmdebstrap"]
    assert variants == ["--variant=extract", "--variant=minbase"]
