"""The node from its own side: its container runtime, as somebody logged in there would use it."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from quintet.local.build.packages import find_container_runtime
from quintet.local.cluster import Cluster
from quintet.local.images import build
from quintet.local.images.catalog import Image
from quintet.local.node import config

HERE = Path(__file__).parent
WEB = "registry.k8s.io/nginx-slim:0.8"


class TestImage(Image):
    """An image that only tests need."""

    __test__ = False

    @property
    def directory(self) -> Path:
        """Beside the tests."""
        return HERE / "images" / self.folder


@dataclass(frozen=True)
class Runtime:
    """containerd on the node of a cluster."""

    cluster: Cluster

    def ctr(self, *arguments: str) -> str:
        """Call containerd's own client, which must succeed."""
        place = f"/proc/{self.cluster.process('namespace').pid}/ns"
        enter = ["nsenter", f"--net={place}/net", f"--mount={place}/mnt", "--"]
        program = find_container_runtime(lambda _: None).programs / "ctr"
        command = [*enter, str(program), "--address", config.SOCKET, "--namespace", "k8s.io", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True)
        assert answer.returncode == 0, f"ctr {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def also_known_as(self, image: str, alias: str) -> None:
        """Give an image that is there a second name."""
        self.ctr("images", "tag", "--force", image, alias)

    def load_web(self) -> None:
        """Bring the image of the documentation's manifest to the node, built here."""
        image = TestImage(WEB, "nginx", ("nginx-light",))
        self.ctr("images", "import", "--no-unpack", str(build.build_archive(image, lambda _: None)))

    def kill_container(self, container: str) -> None:
        """Kill the process of a container behind the kubelet's back; `container` is its id."""
        self.ctr("tasks", "kill", "--signal", "SIGKILL", container.removeprefix("containerd://"))
