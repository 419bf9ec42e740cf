"""The process that holds a node's network and mount namespaces, and relays to its API server.

`up` starts it as `unshare --net --mount python -m quintet.local.node.namespace`; the node's other
processes enter its namespaces by its pid. The network has no link outside, and mounts hide the paths
that a node writes to outside the cluster's folder, so both disappear with the processes. The process
then relays connections from a listening socket, created outside, to the API server inside.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

API_PORT = 6443
READY = "namespace.ready"
KUBELET = "/var/lib/kubelet"
BLOCK = 65536
# The kubelet would set these for the whole machine; here it reads files in which they are already set.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def namespace_ids() -> list[str]:
    """Return the ids of this process's network and mount namespaces."""
    return [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "mnt")]


def main(descriptor: str, directory: str, address: str, *outside: str) -> None:
    """Set up the namespaces, create the ready file, and relay until stopped.

    `outside` are the namespaces of the machine; the process refuses to run in them.
    """
    if len(outside) != 2 or set(outside) & set(namespace_ids()):
        sys.exit("error: refusing to change network and mounts of the machine; only `up --node` runs this")
    listener = socket.socket(fileno=int(descriptor))
    folder = Path(directory)
    create_links(address)
    create_mounts(folder)
    (folder / READY).touch()
    asyncio.run(relay_connections(listener))


def create_links(address: str) -> None:
    """Set up loopback and eth0, a bridge without ports because some kernels have no dummy device."""
    for line in (
        "link set lo up",
        "link add eth0 type bridge",
        f"address add {address}/24 dev eth0",
        "link set eth0 up",
        "route add default dev eth0",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def create_mounts(folder: Path) -> None:
    """Mount a separate /run and /var for the node, without hiding the cluster's folder."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    own = Path("/run/quintet")
    for name in ("state", "upper", "work", "settings"):
        (own / name).mkdir(parents=True)
    # The folder may be below /var: bind it aside, then mount it again on top.
    _mount("--bind", str(folder), str(own / "state"))
    layers = f"lowerdir=/var,upperdir={own}/upper,workdir={own}/work"
    _mount("-t", "overlay", "-o", layers, "overlay", "/var")
    _mount("--bind", str(own / "state"), str(folder))
    # The kubelet's default folder: pods expect it there, and socket paths must be short.
    for place in (folder / "kubelet", Path(KUBELET)):
        place.mkdir(exist_ok=True)
    _mount("--bind", str(folder / "kubelet"), KUBELET)
    for name, value in KERNEL_SETTINGS.items():
        copy = own / "settings" / name.replace("/", ".")
        copy.write_text(f"{value}\n")
        if (real := Path("/proc/sys") / name).exists():
            _mount("--bind", str(copy), str(real))
    # Volumes that the kubelet mounts must appear in running containers.
    _mount("--make-rshared", "/")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


async def relay_connections(listener: socket.socket) -> None:
    """Forward every connection to the API server."""
    server = await asyncio.start_server(_forward, sock=listener)
    async with server:
        await server.serve_forever()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", API_PORT)
    except OSError:
        # The API server is not up yet, or restarts: close the connection, and the client retries.
        writer.transport.abort()
        return
    await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
    for each in (writer, inner_writer):
        each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        # One side failed: abort the other too, or it would wait forever.
        writer.transport.abort()


if __name__ == "__main__":
    main(*sys.argv[1:])
