"""The process that is a node's network and mount namespace, and the door to its API server.

Started by `node` as `unshare --net --mount python -m quintet.local.node.namespace`; the others of the
node enter its namespaces by its pid. No link leads out of the network; the mounts hide the
places that a node writes to outside its folder, so both are gone when the processes are.
It then relays connections from a listening socket, made outside, to the API server inside.
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
# The kubelet wants these and would set them for the whole machine: here it reads that they are set.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def namespace_ids() -> list[str]:
    """Name the network and mount namespace that this process is in."""
    return [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "mnt")]


def main(descriptor: str, directory: str, address: str, *outside: str) -> None:
    """Set up the namespaces, say so by a file, and relay until told to stop; `outside` must be others."""
    if len(outside) != 2 or set(outside) & set(namespace_ids()):
        sys.exit("error: this would change the network and the mounts of the machine; it is started by `up`")
    listener = socket.socket(fileno=int(descriptor))
    folder = Path(directory)
    create_links(address)
    create_mounts(folder)
    (folder / READY).touch()
    asyncio.run(relay_connections(listener))


def create_links(address: str) -> None:
    """Make loopback and eth0. Some kernels have no dummy device: a bridge without ports serves."""
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
    """Give the node /run and /var of its own, without hiding the cluster's folder."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    own = Path("/run/quintet")
    for name in ("state", "upper", "work", "settings"):
        (own / name).mkdir(parents=True)
    # The folder may itself be below /var: it is kept aside and put back on top.
    _mount("--bind", str(folder), str(own / "state"))
    layers = f"lowerdir=/var,upperdir={own}/upper,workdir={own}/work"
    _mount("-t", "overlay", "-o", layers, "overlay", "/var")
    _mount("--bind", str(own / "state"), str(folder))
    # The kubelet's usual place: pods expect it there, and the path of a socket must be short.
    for place in (folder / "kubelet", Path(KUBELET)):
        place.mkdir(exist_ok=True)
    _mount("--bind", str(folder / "kubelet"), KUBELET)
    for name, value in KERNEL_SETTINGS.items():
        copy = own / "settings" / name.replace("/", ".")
        copy.write_text(f"{value}\n")
        if (real := Path("/proc/sys") / name).exists():
            _mount("--bind", str(copy), str(real))
    # Volumes that the kubelet mounts must appear in containers that run already.
    _mount("--make-rshared", "/")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


async def relay_connections(listener: socket.socket) -> None:
    """Pass every connection on to the API server."""
    server = await asyncio.start_server(_connected, sock=listener)
    async with server:
        await server.serve_forever()


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", API_PORT)
    except OSError:
        # Not there yet, or restarting: the client sees a closed connection and tries again.
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
        # One side broke off: so must the other, or it would wait for ever.
        writer.transport.abort()


if __name__ == "__main__":
    main(*sys.argv[1:])
