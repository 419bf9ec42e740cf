"""CycloneDX documents list the packages and are reproducible."""

import json
from pathlib import Path

from quintet.release.sbom import Package, SbomSubject, python_packages, render_document, with_hashes

ROOT = Path(__file__).parents[3]
A, B = "a" * 64, "b" * 64
LOCKED = f"""\
# by hand
Some_Package[extra]==1.2.3 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
other==4 ; python_version < '3.12' \\
    --hash=sha256:{A}
"""
IMAGE = SbomSubject("registry/q", "1", url="pkg:oci/q@sha256%3Aabc", system=("debian", "12"))


def test_python_packages_yields_locked_packages_with_hashes():
    assert list(python_packages(LOCKED)) == [
        Package("pypi", "some-package", "1.2.3", hashes=(A, B)),
        Package("pypi", "other", "4", hashes=(A,)),
    ]


def test_python_packages_yields_every_runtime_requirement():
    text = (ROOT / "requirements/runtime.txt").read_text()
    found = list(python_packages(text))
    assert len(found) == text.count("==") > 5
    assert all(package.hashes for package in found)


def test_package_url_follows_purl_format():
    packages = [
        Package("deb", "libc6", "1:2.36-9+deb12u13", "amd64"),
        Package("npm", "@scope/name", "1.0.0"),
        Package("golang", "github.com/nats-io/nats-server/v2", "v2.15.2"),
    ]
    assert [package.url for package in packages] == [
        "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u13?arch=amd64",
        "pkg:npm/%40scope/name@1.0.0",
        "pkg:golang/github.com/nats-io/nats-server/v2@v2.15.2",
    ]


def test_with_hashes_adds_hashes_of_locked_packages():
    found = [Package("pypi", "other", "4"), Package("pypi", "unlocked", "1")]
    assert with_hashes(found, python_packages(LOCKED)) == [
        Package("pypi", "other", "4", hashes=(A,)),
        found[1],
    ]


def test_sbom_is_identical_for_same_packages_in_any_order():
    packages = list(python_packages(LOCKED))
    assert render_document(IMAGE, packages) == render_document(IMAGE, list(reversed(packages)))
    assert render_document(IMAGE, packages) != render_document(IMAGE, packages[1:])


def test_sbom_describes_image_and_components():
    body = json.loads(render_document(IMAGE, python_packages(LOCKED)))
    assert (body["bomFormat"], body["specVersion"]) == ("CycloneDX", "1.6")
    assert body["serialNumber"].startswith("urn:uuid:")
    assert body["metadata"]["component"] == {
        "type": "container", "bom-ref": "registry/q:1", "name": "registry/q", "version": "1",
        "purl": "pkg:oci/q@sha256%3Aabc",
    }  # fmt: skip
    assert [each["type"] for each in body["components"]] == ["operating-system", "library", "library"]
    assert body["dependencies"] == [
        {"ref": "registry/q:1", "dependsOn": ["pkg:pypi/other@4", "pkg:pypi/some-package@1.2.3"]}
    ]
