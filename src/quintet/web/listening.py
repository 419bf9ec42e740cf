"""The end of listening, without a connection that is lost on the way.

A listener of asyncio that is closed between the arrival of a connection and its turn forgets that connection:
nobody answers it, and nobody closes it. One of uvloop takes it in, but after it was closed. Used by `server`.
"""

import asyncio


async def close(listener: asyncio.Server) -> None:
    """Let nobody in any more; whoever has come by now is inside when this returns."""
    loop = asyncio.get_running_loop()
    for each in listener.sockets:
        loop.remove_reader(each.fileno())
    await _taken_in(loop)
    listener.close()
    await _taken_in(loop)


async def _taken_in(loop: asyncio.AbstractEventLoop) -> None:
    """A connection that was accepted is inside two rounds of the loop later."""
    rounds = loop.create_future()
    loop.call_soon(loop.call_soon, rounds.set_result, None)
    await rounds
