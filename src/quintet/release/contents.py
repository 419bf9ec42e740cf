"""Finds the packages in the files of an image. Pure.

The sources are Debian's database (or the metadata of packages that were only unpacked), metadata of
installed Python and npm packages, and the build information of Go programs.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import BytesHeaderParser

from quintet.local.images.archives import LayerFile, RemovedPath
from quintet.release.buildinfo import read_modules
from quintet.release.sbom import Package, python_name

_DEBIAN = "var/lib/dpkg/status"
_SYSTEM = "usr/lib/os-release"
_PYTHON = re.compile(r"(?:^|/)[^/]+\.dist-info/METADATA$")
_NPM = re.compile(r"(?:^|/)node_modules/(?:@[^/]+/)?[^/@.][^/]*/package\.json$")
_FIELD = re.compile(r"^\S+: ")
_ELF = b"\x7fELF"


@dataclass(frozen=True, slots=True)
class Contents:
    """The packages and the operating system of an image."""

    packages: tuple[Package, ...]
    system: tuple[str, str] | None = None
    """ID and version of the operating system."""


def read_contents(members: Iterable[LayerFile | RemovedPath]) -> Contents:
    """Return the packages in the files of an image; later layers replace or remove files of earlier ones."""
    found: dict[str, tuple[Package, ...]] = {}
    system = None
    for member in members:
        _discard(found, member.path)
        if isinstance(member, RemovedPath):
            continue
        if member.path == _SYSTEM:
            system = _parse_os_release(member.content.read().decode())
        elif packages := tuple(_packages(member)):
            found[member.path] = packages
    return Contents(tuple(sorted({each for packages in found.values() for each in packages})), system)


def _discard(found: dict[str, tuple[Package, ...]], path: str) -> None:
    for known in [each for each in found if each == path or each.startswith(f"{path}/")]:
        del found[known]


def _packages(member: LayerFile) -> Iterator[Package]:
    if member.path == _DEBIAN:
        yield from debian_packages(member.content.read().decode())
    elif member.path.startswith(f"{_DEBIAN}.d/"):
        yield from debian_packages(member.content.read().decode(), unpacked=True)
    elif _PYTHON.search(member.path):
        headers = BytesHeaderParser().parsebytes(member.content.read())
        yield Package("pypi", python_name(headers["Name"]), headers["Version"])
    elif _NPM.search(member.path):
        metadata = json.loads(member.content.read())
        yield Package("npm", metadata["name"], metadata["version"])
    elif member.mode & 0o111 and (start := member.content.read(4)) == _ELF:
        yield from (
            Package("golang", name, version) for name, version in read_modules(start + member.content.read())
        )


def debian_packages(status: str, *, unpacked: bool = False) -> Iterator[Package]:
    """Yield the installed packages of Debian's database, or all of it for `unpacked` packages."""
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if _FIELD.match(line))
        if fields and (unpacked or fields.get("Status", "").endswith(" installed")):
            yield Package("deb", fields["Package"], fields["Version"], fields.get("Architecture", ""))


def _parse_os_release(text: str) -> tuple[str, str]:
    lines = (line.partition("=") for line in text.splitlines())
    values = {name: value.strip('"') for name, _, value in lines}
    return values.get("ID", "linux"), values.get("VERSION_ID", "")
