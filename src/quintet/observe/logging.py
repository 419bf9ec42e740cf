"""Log formats: JSON or text lines on stderr.

All code logs with the standard library. Every line of a reconciliation has the controller, the object and a
reconcile ID.
"""

import asyncio
import contextlib
import contextvars
import json
import logging
import signal
import sys
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

from quintet.apis.meta import ObjectKey

T = TypeVar("T")

_context: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("log_context", default={})  # noqa: B039 - never mutated
_level_before = logging.INFO
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


@contextlib.contextmanager
def reconcile_context(controller: str, key: ObjectKey, reconcile_id: str) -> Iterator[None]:
    """Add the fields of a reconciliation to everything that is logged inside."""
    fields = {
        "controller": controller,
        "namespace": key.namespace,
        "name": key.name,
        "reconcileID": reconcile_id,
    }
    token = _context.set(fields)
    try:
        yield
    finally:
        _context.reset(token)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {**_context.get(), **extra}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with `ts`, `level` and `msg` first."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "ts": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            "logger": record.name,
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value)  # extra fields never overwrite the standard ones
        if record.exc_info and (error := record.exc_info[1]):
            line["error"] = str(error) or type(error).__name__
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Formats a record for a terminal: time, level, message, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback if there is one."""
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items() if value != "")
        text = f"{moment} {record.levelname:<7} {record.getMessage()}  {fields}".rstrip().replace("\n", "\\n")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def toggle_debug() -> None:
    """Change the level of all logs to debug, or back to the one before."""
    global _level_before
    root = logging.getLogger()
    if root.level == logging.DEBUG:
        root.setLevel(_level_before)
    else:
        _level_before = root.level
        root.setLevel(logging.DEBUG)
    root.log(max(root.level, logging.INFO), "Log level changed: %s", logging.getLevelName(root.level).lower())


async def run_with_level_signal(work: Awaitable[T]) -> T:
    """Run the work; SIGUSR1, which ends a process by default, changes the log level to debug and back."""
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, toggle_debug)
    return await work


def set_up(style: str = "json", level: str = "info") -> None:
    """Configure the logging of this process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
