"""The controller of one kind as a process: `python -m kit.faults.operator_main KIND KUBECONFIG CONTEXT NAMESPACE`.

It imports only that controller, because fault tests start it hundreds of times.
"""

import asyncio
import importlib
import sys

from quintet.clock import SystemClock
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.observe import logging as logs
from quintet.runtime.manager import Manager


async def _run(kind: str, kubeconfig: str, context: str, namespace: str) -> None:
    controller = importlib.import_module(f"quintet.controllers.{kind}.controller")
    async with Transport(config.load(kubeconfig, context)) as transport:
        manager = Manager(Client(transport), SystemClock(), "operator", namespace=namespace)
        controller.build(manager)
        await manager.run()


if __name__ == "__main__":
    logs.set_up("text", "info")
    asyncio.run(_run(*sys.argv[1:5]))
