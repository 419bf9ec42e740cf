"""What an image is made of, as a CycloneDX document. Called by `release`.

Python packages come from the locked requirements, Debian's from the package database of the base. The
document holds no time of day and no random number: the same packages give the same bytes.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quintet import __version__
from quintet.apis.meta import JsonObject

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE = uuid.UUID("0f0c1f6e-6f0b-5b7e-9f3a-7c5a1c2b9d10")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One package in an image."""

    ecosystem: str
    name: str
    version: str
    hashes: tuple[str, ...] = ()
    """SHA-256 of the files that it may have come from."""

    @property
    def url(self) -> str:
        """Its package URL."""
        version = self.version.replace("+", "%2B").replace(":", "%3A")
        distribution = "debian/" if self.ecosystem == "deb" else ""
        return f"pkg:{self.ecosystem}/{distribution}{self.name}@{version}"


def python_packages(requirements: str) -> Iterator[Package]:
    """The packages of a locked requirements file."""
    for entry in requirements.replace("\\\n", " ").splitlines():
        if found := _PINNED.match(entry.strip()):
            name = re.sub(r"[-_.]+", "-", found[1]).lower()
            yield Package("pypi", name, found[2], tuple(_HASH.findall(entry)))


def debian_packages(status: str) -> Iterator[Package]:
    """The packages that Debian's database says are installed."""
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"^\S+: ", line))
        if fields.get("Status", "").endswith(" installed"):
            yield Package("deb", fields["Package"], fields["Version"])


def document(image: str, packages: Iterable[Package]) -> str:
    """The whole document, as JSON."""
    listed = sorted(set(packages))
    body: JsonObject = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": image, "name": image, "version": __version__},
        },
        "components": [_component(package) for package in listed],
        "dependencies": [{"ref": image, "dependsOn": [package.url for package in listed]}],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(body, sort_keys=True))
    return json.dumps({**body, "serialNumber": f"urn:uuid:{serial}"}, indent=2) + "\n"


def _component(package: Package) -> JsonObject:
    component: JsonObject = {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
    }
    # One file of several was installed, and which one depends on the machine: all of them are named.
    if package.hashes:
        component["properties"] = [
            {"name": "quintet:sha256", "value": value} for value in sorted(package.hashes)
        ]
    return component
