"""The packages that are found in the files of an image."""

import io
import json
import shutil
import subprocess

import pytest

from quintet.local.images.archives import LayerFile, RemovedPath
from quintet.release.buildinfo import read_modules
from quintet.release.contents import debian_packages, read_contents
from quintet.release.sbom import Package

STATUS = """\
Package: dash
Status: install ok installed
Version: 0.5.12-2
Architecture: amd64
Description: shell
 of Debian

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
Version: 1:2.36-9+deb12u13
"""


def a_file(path, content, mode=0o644):
    return LayerFile(path, mode, io.BytesIO(content.encode() if isinstance(content, str) else content))


def npm(name, version="1.0.0"):
    return json.dumps({"name": name, "version": version})


def found(*members):
    return [(each.ecosystem, each.name, each.version) for each in read_contents(members).packages]


def test_contents_list_only_installed_packages_of_dpkg_status():
    assert list(debian_packages(STATUS)) == [
        Package("deb", "dash", "0.5.12-2", "amd64"),
        Package("deb", "libc6", "1:2.36-9+deb12u13"),
    ]


def test_contents_list_unpacked_debian_packages():
    member = a_file("var/lib/dpkg/status.d/dash", "Package: dash\nVersion: 1\nArchitecture: amd64\n")
    assert read_contents([member, a_file("var/lib/dpkg/status", "")]).packages == (
        Package("deb", "dash", "1", "amd64"),
    )


def test_contents_list_python_packages_by_normalized_name():
    text = "Metadata-Version: 2.1\nName: Some_Package\nVersion: 1.2\n\nName: not a header\n"
    assert found(a_file("app/some_package-1.2.dist-info/METADATA", text)) == [("pypi", "some-package", "1.2")]


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("app/node_modules/express/package.json", True),
        ("app/node_modules/@scope/x/package.json", True),
        ("app/node_modules/a/node_modules/b/package.json", True),
        ("app/node_modules/express/esm/package.json", False),
        ("app/node_modules/.package-lock.json", False),
        ("app/package.json", False),
    ],
)
def test_contents_list_npm_packages_below_node_modules(path, counts):
    assert found(a_file(path, npm("x"))) == ([("npm", "x", "1.0.0")] if counts else [])


def test_contents_use_file_of_latest_layer():
    path = "app/node_modules/x/package.json"
    assert found(a_file(path, npm("x", "1.0.0")), a_file(path, npm("x", "2.0.0"))) == [("npm", "x", "2.0.0")]


@pytest.mark.parametrize("gone", ["app/node_modules/x/package.json", "app/node_modules/x", "app"])
def test_contents_omit_files_removed_by_later_layer(gone):
    kept = a_file("app2/node_modules/y/package.json", npm("y"))
    assert found(a_file("app/node_modules/x/package.json", npm("x")), kept, RemovedPath(gone)) == [
        ("npm", "y", "1.0.0")
    ]


def test_contents_include_operating_system():
    text = 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\n'
    assert read_contents([a_file("usr/lib/os-release", text)]).system == ("debian", "12")
    assert read_contents([]).system is None


def a_program(listed, version="go1.26.0"):
    """Return build information as Go's linker writes it: header, version, and modules between markers."""

    def text(value):
        length, prefix = len(value), b""
        while length >= 0x80:
            prefix, length = prefix + bytes([length & 0x7F | 0x80]), length >> 7
        return prefix + bytes([length]) + value

    head = b"\xff Go buildinf:" + bytes([8, 2]) + bytes(16)
    fenced = b"F" * 16 + "\n".join("\t".join(line) for line in listed).encode() + b"\n" + b"F" * 16
    return b"\x7fELF" + bytes(60) + head + text(version.encode()) + text(fenced)


LISTED = [
    ("path", "example.com/tool/cmd"),
    ("mod", "example.com/tool", "v1.2.3", "h1:x="),
    ("dep", "example.com/old", "v1.0.0", "h1:y="),
    ("=>", "example.com/fork", "v1.0.1", "h1:z="),
    *[
        ("dep", f"example.com/with/a/long/path/number/{number}", "v0.0.1", "h1:" + "a" * 44)
        for number in range(9)
    ],
    ("build", "CGO_ENABLED=0"),
]


def test_go_program_lists_modules_and_replacements():
    names = dict(read_modules(a_program(LISTED)))
    assert names.pop("stdlib") == "1.26.0"
    assert names.pop("example.com/tool") == "v1.2.3"
    assert names.pop("example.com/fork") == "v1.0.1"
    assert len(names) == 9
    assert "example.com/old" not in names


def test_go_program_omits_module_without_version():
    assert dict(read_modules(a_program([("mod", "example.com/ours", "(devel)", "")]))) == {"stdlib": "1.26.0"}


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"x\xff Go buildinf:", b"\xff Go buildinf:\x08\x00" + bytes(40)],
    ids=["empty", "not a Go program", "magic string without header", "older than Go 1.18"],
)  # fmt: skip
def test_non_go_program_has_no_modules(content):
    assert list(read_modules(content)) == []


def test_contents_read_modules_of_executables_only():
    program = a_program([("dep", "example.com/x", "v1", "h1:x=")])
    assert found(a_file("usr/bin/x", program, 0o755)) == [
        ("golang", "example.com/x", "v1"),
        ("golang", "stdlib", "1.26.0"),
    ]
    assert found(a_file("usr/share/x", program)) == []


def test_read_modules_matches_go_version_output():
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go here")
    said = subprocess.run([go, "version", "-m", go], capture_output=True, text=True, check=True).stdout
    want = {(line.split()[1], line.split()[2]) for line in said.splitlines() if line.split()[0] == "dep"}
    with open(go, "rb") as program:
        assert want <= set(read_modules(program.read()))
