"""HTTP requests at a constant rate from a client that needs little CPU."""

import asyncio
import contextlib
from collections import Counter

CONNECTIONS = 10
TICK = 0.05


async def send_requests(port: int, path: str, *, per_second: int, seconds: int) -> Counter[int]:
    """Send requests to a server on loopback and count the responses by status.

    If the machine is too slow for the rate, it takes longer and sends as many requests.
    """
    each = max(1, round(per_second * TICK / CONNECTIONS))
    ticks = per_second * seconds // (each * CONNECTIONS)
    counts = await asyncio.gather(*(_send(port, path, each, ticks) for _ in range(CONNECTIONS)))
    return sum(counts, Counter())


async def _send(port: int, path: str, each: int, ticks: int) -> Counter[int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    statuses: Counter[int] = Counter()
    request = f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    due = loop.time()
    try:
        for _ in range(ticks):
            writer.write(request * each)
            for _ in range(each):
                statuses[await _read_response(reader)] += 1
            # What a stall has cost is not made up for: many at once are no steady rate, and are refused.
            due = max(due + TICK, loop.time())
            await asyncio.sleep(max(0.0, due - loop.time()))
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return statuses


async def _read_response(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = head.partition("content-length: ")[2].partition("\r\n")[0]
    await reader.readexactly(int(length or 0))
    return int(head.split()[1])
