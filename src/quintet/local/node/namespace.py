"""The processes that hold the namespaces of a cluster with nodes.

`up` starts one for the control plane, as `unshare --net python -m quintet.local.node.namespace switch …`:
its network has the bridge to which the nodes are connected, and it relays connections from a listening
socket, created outside, to the API server. It starts one per node with `node …`, which also has mounts of its
own: they hide the paths that a node writes to outside the cluster's folder. The other processes enter these
namespaces by the pid of the holder. No network has a link outside, and all disappear with the processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

API_PORT = 6443
READY = "namespace.ready"
KUBELET = "/var/lib/kubelet"
BLOCK = 65536
PREFIX = 24
SECONDS = 10.0
# The kubelet would set these for the whole machine; here it reads files in which they are already set.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True, slots=True)
class Network:
    """The network of a namespace: address, routes to the pods of (other) nodes, port at the switch."""

    address: str
    routes: dict[str, str]
    """Address of the node by pod range."""
    switch: int = 0
    """The pid of the process that holds the namespace of the switch."""
    link: str = ""
    """The name of the port at the switch."""

    def to_json(self) -> str:
        """Return the network as an argument of this module."""
        return json.dumps(asdict(self))


def namespace_ids() -> list[str]:
    """Return the ids of this process's network and mount namespaces."""
    return [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "mnt")]


def main(role: str, network: str, ready: str, outside: str, *rest: str) -> None:
    """Set up the namespaces, create the file `ready`, and hold them until stopped.

    `outside` names the namespaces of the machine; the process refuses to run in them.
    """
    refuse_namespaces_of_machine(outside.split(","), role)
    wanted = Network(**json.loads(network))
    if role == "switch":
        listener = socket.socket(fileno=int(rest[0]))
        create_switch(wanted)
        Path(ready).touch()
        asyncio.run(relay_connections(listener))
    else:
        create_mounts(Path(rest[0]), Path(rest[1]))
        connect_to_switch(wanted)
        Path(ready).touch()
        # As small as possible: there can be ten nodes.
        os.execvp("sleep", ("sleep", "infinity"))


def refuse_namespaces_of_machine(outside: list[str], role: str) -> None:
    """Exit if this process shares a namespace that it would change with the machine."""
    changed = namespace_ids() if role == "node" else namespace_ids()[:1]
    if len(outside) != 2 or set(outside) & set(changed):
        sys.exit("error: refusing to change network and mounts of the machine; only `up` runs this")


def create_switch(network: Network) -> None:
    """Set up loopback and eth0, the bridge that connects the nodes."""
    _ip(
        "link set lo up",
        "link add eth0 type bridge",
        f"address add {network.address}/{PREFIX} dev eth0",
        "link set eth0 up",
        # Some programs find out their address by the default route.
        "route add default dev eth0",
        *_routes(network),
    )


def connect_to_switch(network: Network) -> None:
    """Set up loopback and eth0, whose other end is a port of the switch."""
    inside_switch = ("nsenter", f"--net=/proc/{network.switch}/ns/net", "--")
    deadline = time.monotonic() + SECONDS
    # The kernel removes the port of a node that has just been stopped a moment later.
    while _has_link(network.link, inside_switch) and time.monotonic() < deadline:
        time.sleep(0.05)
    _ip(
        "link set lo up",
        f"link add eth0 type veth peer name {network.link} netns {network.switch}",
        f"link set eth0 address {hardware_address(network.address)}",
        f"address add {network.address}/{PREFIX} dev eth0",
        "link set eth0 up",
    )
    _ip(f"link set {network.link} master eth0 up", prefix=inside_switch)
    # ClusterIPs need a route before kube-proxy's rules apply.
    _ip("route add default dev eth0", *_routes(network))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def hardware_address(address: str) -> str:
    """Return the MAC address of a node; it stays the same, so that a node that returns is found at once."""
    return ":".join(f"{int(each):02x}" for each in ("2", "0", *address.split(".")))


def _routes(network: Network) -> list[str]:
    return [f"route add {pods} via {address}" for pods, address in network.routes.items()]


def _ip(*lines: str, prefix: tuple[str, ...] = ()) -> None:
    subprocess.run([*prefix, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def _has_link(name: str, prefix: tuple[str, ...]) -> bool:
    return subprocess.run([*prefix, "ip", "link", "show", name], capture_output=True).returncode == 0


def create_mounts(folder: Path, node: Path) -> None:
    """Mount a separate /run and /var for a node, without hiding the cluster's folder; `node` is below it."""
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
    for place in (node / "kubelet", Path(KUBELET)):
        place.mkdir(exist_ok=True)
    _mount("--bind", str(node / "kubelet"), KUBELET)
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
