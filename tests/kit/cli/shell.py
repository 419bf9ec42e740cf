"""Runs the shell blocks of a documentation page unchanged, as a user of one namespace."""

import asyncio
import os
import re
from pathlib import Path

import yaml

from quintet.local.cluster import Cluster

BLOCK = re.compile(r"^```sh ([a-z-]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


# Some blocks call kubectl dozens of times and wait for controllers in between.
LONGEST = 600


class Shell:
    """The shell blocks of a page that have a name: ```sh name."""

    def __init__(self, cluster: Cluster, namespace: str, page: Path, folder: Path, **variables: str) -> None:
        self.blocks = dict(BLOCK.findall(page.read_text()))
        (folder / "kubectl").symlink_to(cluster.programs / "kubectl")
        config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
        for context in config["contexts"]:
            context["context"]["namespace"] = namespace
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        self._folder = folder
        self._environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "kubeconfig"),
            **variables,
        }

    async def run(self, block: str) -> str:
        """Run a block, which must succeed, and return its output."""
        program = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", self.blocks[block],
            cwd=self._folder, env=self._environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(program.communicate(), LONGEST)
        assert program.returncode == 0, f"{self.blocks[block]}\n{said.decode()}"
        return said.decode()
