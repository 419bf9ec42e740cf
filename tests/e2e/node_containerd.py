"""The containerd of a node, used from inside the node."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from quintet.local.build.runtime import find_container_runtime
from quintet.local.cluster import Cluster
from quintet.local.images import build
from quintet.local.images.catalog import Image
from quintet.local.node.containerd import NAMESPACE
from quintet.local.node.programs import find_client

HERE = Path(__file__).parent
WEB = "registry.k8s.io/nginx-slim:0.8"


class TestImage(Image):
    """An image for tests only."""

    __test__ = False

    @property
    def directory(self) -> Path:
        """The folder of its Dockerfile, beside the tests."""
        return HERE / "images" / self.folder


@dataclass(frozen=True)
class NodeContainerd:
    """containerd on the only node of a cluster, through its client `ctr`."""

    cluster: Cluster

    def ctr(self, *arguments: str) -> str:
        """Run `ctr` and assert that it succeeds; return its output."""
        (node,) = self.cluster.list_nodes()
        client = find_client(node, find_container_runtime(lambda _: None))
        command = [*client.ctr, "--namespace", NAMESPACE, *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, f"ctr {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def tag_image(self, image: str, alias: str) -> None:
        """Add a second name to a loaded image."""
        self.ctr("images", "tag", "--force", image, alias)

    def load_web(self) -> None:
        """Build and load the image of the manifest in the Kubernetes documentation."""
        image = TestImage(WEB, "nginx", ("nginx-light",))
        self.ctr("images", "import", "--no-unpack", str(build.build_archive(image, lambda _: None)))

    def kill_container(self, container: str) -> None:
        """Kill the process of a container without the kubelet; `container` is its id."""
        self.ctr("tasks", "kill", "--signal", "SIGKILL", container.removeprefix("containerd://"))
