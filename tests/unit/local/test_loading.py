"""Which images are loaded into the containerd of a node."""

import pytest

from kit.install.image_archives import an_image, layer
from quintet.local.node.containerd import Containerd

HEADER = "REF TYPE DIGEST SIZE PLATFORMS LABELS"


@pytest.fixture
def node(tmp_path):
    """Fake `ctr` that prints the file `list` and records imports."""
    client = tmp_path / "ctr"
    client.write_text(
        f'#!/bin/sh\ncase "$*" in *list) cat {tmp_path}/list ;; *import*) echo "$6" >>{tmp_path}/imported ;; esac\n'
    )
    client.chmod(0o755)
    return Containerd((str(client),))


@pytest.mark.parametrize(
    ("present", "want_imported", "want_changed"),
    [("same", False, []), ("sha256:0", True, ["quintet.local/x:1"]), ("", True, [])],
    ids=["same digest", "different digest", "missing"],
)
def test_containerd_loads_image_only_if_digest_differs(node, tmp_path, present, want_imported, want_changed):
    digest = an_image(tmp_path / "x.tar", layer(("a", b"1")))
    row = f"quintet.local/x:1 application/vnd.oci {present.replace('same', digest)} 1.0 MiB linux/amd64 -"
    (tmp_path / "list").write_text("\n".join([HEADER, *([row] if present else [])]) + "\n")
    assert node.load({"quintet.local/x:1": tmp_path / "x.tar"}) == want_changed
    imported = tmp_path / "imported"
    assert imported.exists() == want_imported
    if want_imported:
        assert imported.read_text() == f"{tmp_path}/x.tar\n"
