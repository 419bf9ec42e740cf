"""The end of listening, without a connection that is lost on the way.

A listener of asyncio that is closed between the arrival of a connection and its turn forgets that connection:
nobody answers it, and nobody closes it. Called by `server` before it closes its own.
"""

import asyncio


async def no_more(listener: asyncio.Server) -> None:
    """Let nobody in any more; whoever has come by now is inside when this returns."""
    loop = asyncio.get_running_loop()
    for each in listener.sockets:
        loop.remove_reader(each.fileno())
    # A connection that was accepted is taken in with the next round of the loop.
    taken_in = loop.create_future()
    loop.call_soon(loop.call_soon, taken_in.set_result, None)
    await taken_in
