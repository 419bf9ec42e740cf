"""Logs: JSON lines for machines, short lines for people, on stderr.

Code logs with the standard library. Inside a reconciliation every line carries the
controller, the object and one reconcile id, whoever writes it.
"""

import contextlib
import contextvars
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from quintet.apis.meta import ObjectKey

_context: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("log_context", default={})  # noqa: B039 - never mutated
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


@contextlib.contextmanager
def reconciling(controller: str, key: ObjectKey, reconcile_id: str) -> Iterator[None]:
    """Everything logged inside says which reconciliation it belongs to."""
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
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """As `ts, level, msg, …`, the order in which people scan a line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "ts": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            "logger": record.name,
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value)  # nobody overwrites what the line itself says
        if record.exc_info and (error := record.exc_info[1]):
            line["error"] = str(error) or type(error).__name__
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """For a terminal: time, level, message, then what belongs to it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below where there is one."""
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items() if value != "")
        text = f"{moment} {record.levelname:<7} {record.getMessage()}  {fields}".rstrip().replace("\n", "\\n")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up(style: str = "json", level: str = "info") -> None:
    """Send the logs of this process to stderr; called once, by the command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
