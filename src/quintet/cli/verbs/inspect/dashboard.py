"""The verb dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.dashboard.server import Dashboard
    from quintet.inspect.session import Target


@click.command(epilog=options.WATCH_EXIT_CODES)
@options.target_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port on 127.0.0.1; default: a free one."
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def dashboard(target: Target, port: int, open_browser: bool) -> None:
    """Serve a web page with the status of all Quintet objects on 127.0.0.1, until interrupted.

    The page is live and read-only, and shows what the user of the kubeconfig may read: all namespaces, or
    only that of the context if the user has no permission to list all. -n selects one namespace. Whoever has
    the printed URL can read the same: it contains a random token.
    """
    options.run(_serve(target, port, open_browser))


async def _serve(target: Target, port: int, open_browser: bool) -> None:
    from quintet.clock import SystemClock
    from quintet.dashboard.server import Dashboard

    async with connect(target) as session:
        page = Dashboard(session, SystemClock(), one_namespace=bool(target.namespace))
        await _run(page, port, open_browser)


async def _run(page: Dashboard, port: int, open_browser: bool) -> None:
    import asyncio

    async with page.serve(port) as url:
        output.result(url)
        output.progress("press Ctrl-C to stop")
        if open_browser:
            click.launch(url)
        await asyncio.Event().wait()
