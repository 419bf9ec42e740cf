"""Writes CycloneDX documents that list the packages of an image or of the Python package.

A document contains no time and no random value: the same packages give the same bytes.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from quintet.apis.meta import JsonObject

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE = uuid.UUID("0f0c1f6e-6f0b-5b7e-9f3a-7c5a1c2b9d10")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """A package in an SBOM."""

    ecosystem: str
    """Type of the package URL: `deb`, `golang`, `npm` or `pypi`."""
    name: str
    version: str
    architecture: str = ""
    hashes: tuple[str, ...] = ()
    """SHA-256 of the files that the package can be installed from."""

    @property
    def url(self) -> str:
        """The package URL."""
        distribution = "debian/" if self.ecosystem == "deb" else ""
        machine = f"?arch={self.architecture}" if self.architecture else ""
        return f"pkg:{self.ecosystem}/{distribution}{quote(self.name)}@{quote(self.version, '')}{machine}"


@dataclass(frozen=True, slots=True)
class SbomSubject:
    """The software that an SBOM describes."""

    name: str
    version: str
    kind: str = "container"
    """Component type of CycloneDX."""
    url: str = ""
    """The package URL."""
    system: tuple[str, str] | None = None
    """ID and version of its operating system."""


def python_packages(requirements: str) -> Iterator[Package]:
    """Yield the packages of a locked requirements file."""
    for entry in requirements.replace("\\\n", " ").splitlines():
        if found := _PINNED.match(entry.strip()):
            yield Package("pypi", python_name(found[1]), found[2], hashes=tuple(_HASH.findall(entry)))


def python_name(name: str) -> str:
    """Return the normalized name of a Python package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def with_hashes(packages: Iterable[Package], locked: Iterable[Package]) -> list[Package]:
    """Return the packages with the hashes of the locked packages added."""
    known: Mapping[str, Package] = {package.url: package for package in locked}
    return [replace(each, hashes=known[each.url].hashes) if each.url in known else each for each in packages]


def render_document(subject: SbomSubject, packages: Iterable[Package]) -> str:
    """Return the CycloneDX document as JSON."""
    listed = sorted(set(packages))
    reference = f"{subject.name}:{subject.version}"
    about = {"type": subject.kind, "bom-ref": reference, "name": subject.name, "version": subject.version}
    if subject.url:
        about["purl"] = subject.url
    body: JsonObject = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": [*_system(subject), *map(_component, listed)],
        "dependencies": [{"ref": reference, "dependsOn": [package.url for package in listed]}],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(body, sort_keys=True))
    return json.dumps({**body, "serialNumber": f"urn:uuid:{serial}"}, indent=2) + "\n"


def _system(subject: SbomSubject) -> list[JsonObject]:
    if subject.system is None:
        return []
    name, version = subject.system
    return [{"type": "operating-system", "bom-ref": f"os:{name}-{version}", "name": name, "version": version}]


def _component(package: Package) -> JsonObject:
    component: JsonObject = {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
    }
    # The platform decides which of several files was installed, so list the hashes of all.
    if package.hashes:
        component["properties"] = [
            {"name": "quintet:sha256", "value": value} for value in sorted(package.hashes)
        ]
    return component
