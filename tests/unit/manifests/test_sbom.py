"""What an image is made of, from what was locked and what is installed."""

import json
from pathlib import Path

from quintet.manifests.sbom import Package, debian_packages, document, python_packages

ROOT = Path(__file__).parent.parent.parent.parent
A, B = "a" * 64, "b" * 64
LOCKED = f"""\
# by hand
Some_Package[extra]==1.2.3 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
other==4 ; python_version < '3.12' \\
    --hash=sha256:{A}
"""
STATUS = """\
Package: dash
Status: install ok installed
Version: 0.5.12-2
Description: shell
 of Debian

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
Version: 1:2.36-9+deb12u13
"""


def test_every_locked_package_is_listed_with_its_hashes():
    assert list(python_packages(LOCKED)) == [
        Package("pypi", "some-package", "1.2.3", (A, B)),
        Package("pypi", "other", "4", (A,)),
    ]


def test_every_package_that_the_product_locks_is_listed():
    text = (ROOT / "requirements/runtime.txt").read_text()
    found = list(python_packages(text))
    assert len(found) == text.count("==") > 5
    assert all(package.hashes for package in found)


def test_only_what_is_installed_counts():
    assert list(debian_packages(STATUS)) == [
        Package("deb", "dash", "0.5.12-2"),
        Package("deb", "libc6", "1:2.36-9+deb12u13"),
    ]


def test_a_package_is_named_by_its_url():
    urls = [package.url for package in debian_packages(STATUS)]
    assert urls == ["pkg:deb/debian/dash@0.5.12-2", "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u13"]


def test_the_same_packages_give_the_same_bytes_in_whatever_order():
    packages = [*python_packages(LOCKED), *debian_packages(STATUS)]
    assert document("q:1", packages) == document("q:1", list(reversed(packages)))
    assert document("q:1", packages) != document("q:1", packages[1:])


def test_the_document_says_what_the_image_depends_on():
    body = json.loads(document("q:1", python_packages(LOCKED)))
    assert (body["bomFormat"], body["specVersion"]) == ("CycloneDX", "1.6")
    assert body["serialNumber"].startswith("urn:uuid:")
    assert body["dependencies"] == [
        {"ref": "q:1", "dependsOn": ["pkg:pypi/other@4", "pkg:pypi/some-package@1.2.3"]}
    ]
