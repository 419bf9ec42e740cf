"""The wheel, installed with pip, uv and pipx into empty environments outside the checkout: cluster, install, demo."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.commands import eventually
from e2e.machine_state import processes
from quintet.components import COMPONENTS
from quintet.local.build import versions
from quintet.local.build.programs import is_built

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
PIPX = "pipx==1.18.4"


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel; its commands run in an empty folder and have a state directory of their own."""

    environment: Path
    state: Path

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run `quintet`, without anything of the environment of the tests but the cache."""
        names = ("HOME", "PATH", "XDG_CACHE_HOME", "LANG")
        variables = {name: os.environ[name] for name in names if name in os.environ}
        return subprocess.run(
            [str(self.environment / "bin/quintet"), *arguments],
            cwd=self.state,
            env=variables | {"XDG_STATE_HOME": str(self.state)},
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling import build; print(build.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-P", "-c", build, str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return folder / built.stdout.split()[-1]


def install_with_pip(environment: Path, wheel: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = (environment / "bin/python", "-m", "pip", "install", "--quiet", wheel)
    subprocess.run(pip, check=True)


def install_with_uv(environment: Path, wheel: Path) -> None:
    """Install into an environment without pip."""
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--python", environment / "bin/python", wheel], check=True
    )


def install_with_pipx(environment: Path, wheel: Path) -> None:
    """Install as an application, with pipx itself in an environment of its own."""
    own = environment.with_name("pipx")
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    subprocess.run([own / "bin/python", "-m", "pip", "install", "--quiet", PIPX], check=True)
    folders = {"PIPX_HOME": own / "home", "PIPX_BIN_DIR": own / "applications", "PIPX_MAN_DIR": own / "man"}
    variables = os.environ | {name: str(folder) for name, folder in folders.items()}
    subprocess.run([own / "bin/pipx", "install", "--quiet", wheel], env=variables, check=True)
    environment.symlink_to(own / "home/venvs/quintet")
    assert (own / "applications/quintet").resolve() == (environment / "bin/quintet").resolve()


INSTALLERS = {"pip": install_with_pip, "uv": install_with_uv, "pipx": install_with_pipx}


@pytest.fixture(scope="module", params=INSTALLERS.values(), ids=INSTALLERS.keys())
def installed(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    request.param(folder / "environment", wheel)
    (folder / "state").mkdir()
    return Installed(folder / "environment", folder / "state")


def assert_nothing_left(state: Path) -> None:
    eventually(lambda: (processes(state), list(state.iterdir())) == ([], []), "nothing is left")


def test_installed_package_finds_the_same_kubernetes_in_the_cache(installed: Installed) -> None:
    code = "from quintet.local.build.programs import is_built; import quintet; print(quintet.__file__, is_built())"
    python = installed.environment / "bin/python"
    done = subprocess.run([python, "-P", "-c", code], cwd=installed.state, capture_output=True, text=True)
    where, built = done.stdout.split()
    assert Path(where).resolve().is_relative_to(installed.environment.resolve())
    assert built == str(is_built())


def test_control_plane_starts_from_installed_wheel(installed: Installed) -> None:
    started = installed.run("up", "-o", "json")
    assert started.returncode == 0, started.stderr
    assert "building" not in started.stderr
    assert json.loads(started.stdout)["version"] == f"v{versions.find_version().release}"
    assert installed.run("kubectl", "get", "--raw", "/readyz").stdout == "ok"
    assert installed.run("down").returncode == 0
    assert_nothing_left(installed.state)


@pytest.mark.node
def test_demo_runs_every_kind_from_installed_wheel(installed: Installed) -> None:
    done = installed.run("demo")
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    for name in COMPONENTS:
        assert re.search(rf"^ +quintet-{name} +quintet-{name} +1$", done.stdout, re.MULTILINE), name
    assert re.search(r"cluster-basics +Passed", done.stdout), done.stdout
    assert "The demo has stopped everything that it started." in done.stdout
    assert_nothing_left(installed.state)
