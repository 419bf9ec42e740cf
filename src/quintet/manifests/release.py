"""`python -m quintet.manifests.release VERSION`: everything that a release consists of, below `dist`.

`make release` calls it from the root of the repository. The same source gives the same bytes: archives
hold no time of day, no owner and no order of the file system.
"""

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from quintet import __version__
from quintet.components import COMPONENTS, Component
from quintet.manifests import sbom
from quintet.manifests.helm import CHART, chart
from quintet.manifests.installation import KIAGNOSE, QUINTET
from quintet.manifests.olm import PACKAGE, Release, bundle, catalog, dockerfile, hub_settings
from quintet.manifests.operator import a_quintet, operator
from quintet.manifests.process import IMAGE
from quintet.manifests.text import as_yaml

_DATABASES = ("var/lib/dpkg/status", "./var/lib/dpkg/status")


def release(
    components: Sequence[Component], requirements: str, debian: str = "", replaces: str = ""
) -> dict[Path, bytes]:
    """Every file of a release, by its path below `dist`."""
    offered = Release(replaces=replaces)
    packages = [*sbom.python_packages(requirements), *sbom.debian_packages(debian)]
    texts = {
        Path("install.yaml"): as_yaml(*operator(components, QUINTET)),
        Path("quintet.yaml"): as_yaml(a_quintet(QUINTET)),
        Path("kiagnose-install.yaml"): as_yaml(*operator(components, KIAGNOSE)),
        Path("kiagnose-quintet.yaml"): as_yaml(a_quintet(KIAGNOSE)),
        Path("catalog") / PACKAGE / "catalog.yaml": catalog(components, [offered]),
        Path("operators") / PACKAGE / "ci.yaml": hub_settings(),
        Path("bundle.Dockerfile"): dockerfile(),
        Path("sbom.cdx.json"): sbom.document(IMAGE, packages),
    }
    submission = Path("operators") / PACKAGE / __version__
    texts |= {submission / path: content for path, content in bundle(components, offered).items()}
    files = {path: content.encode() for path, content in texts.items()}
    files[Path(f"quintet-{__version__}.tgz")] = archive(
        {path.relative_to(CHART.parent): content.encode() for path, content in chart(components).items()}
    )
    files[Path("SHA256SUMS")] = _sums(files)
    return files


def archive(files: Mapping[Path, bytes]) -> bytes:
    """A compressed archive of files, always of the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path.as_posix())
            entry.size, entry.mode = len(content), 0o644
            packed.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def _sums(files: Mapping[Path, bytes]) -> bytes:
    lines = (f"{hashlib.sha256(files[path]).hexdigest()}  {path.as_posix()}\n" for path in sorted(files))
    return "".join(lines).encode()


def _debian(base: Path | None) -> str:
    """The package database in the archive of a base."""
    if base is None:
        return ""
    with tarfile.open(base) as packed:
        for name in _DATABASES:
            if name in packed.getnames() and (found := packed.extractfile(name)) is not None:
                return found.read().decode()
    raise SystemExit(f"{base} holds no package database of Debian\nnext step: give the archive of a base")


def main(arguments: Iterable[str] | None = None) -> int:
    """Write the release; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m quintet.manifests.release")
    parser.add_argument("version", help="must be the one in src/quintet/__init__.py")
    parser.add_argument("--replaces", default="", help="the version before")
    parser.add_argument("--output", type=Path, default=Path("dist"))
    parser.add_argument("--requirements", type=Path, default=Path("requirements/runtime.txt"))
    parser.add_argument("--base", type=Path, help="archive of the base of the image, for its packages")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.version != __version__:
        sys.stderr.write(
            f"the source is of version {__version__}, not {options.version}\n"
            "next step: change it in src/quintet/__init__.py, run `make generate`, commit, and try again\n"
        )
        return 1
    requirements = options.requirements.read_text(encoding="utf-8")
    files = release(tuple(COMPONENTS.values()), requirements, _debian(options.base), options.replaces)
    for path, content in files.items():
        (options.output / path).parent.mkdir(parents=True, exist_ok=True)
        (options.output / path).write_bytes(content)
        sys.stdout.write(f"wrote {options.output / path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
