"""A response whose body is written while it is produced, such as server-sent events."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class StreamedResponse:
    """A response with status 200 whose body ends with the connection.

    The generator is closed when the client disconnects or the server stops.
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


class ResponseStream:
    """Writes the chunks of one response, at the speed at which the client reads them."""

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], transport: asyncio.Transport, on_end: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        self._task = asyncio.get_running_loop().create_task(self._write(chunks))
        self._task.add_done_callback(lambda _: on_end())

    def pause(self) -> None:
        """Produce no more chunks until `resume`."""
        self._writable.clear()

    def resume(self) -> None:
        """Continue."""
        self._writable.set()

    def cancel(self) -> None:
        """End the stream; its generator is closed."""
        self._task.cancel()

    async def _write(self, chunks: AsyncGenerator[bytes, None]) -> None:
        try:
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    self._transport.write(chunk)
                    await self._writable.wait()
        except Exception:
            logger.exception("Streamed response failed")
