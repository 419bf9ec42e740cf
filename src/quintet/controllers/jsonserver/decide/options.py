"""How the options of a JsonServer reach json-server: flags, and files with routes and a middleware.

The pods read the files from annotations of their own, so that an option rolls out like any other change of
the pod template, and needs no other object.
"""

from typing import Final

import msgspec

from quintet.apis.jsonserver import JsonServerSpec, Storage
from quintet.apis.jsonserver.options import MOST_BODY_BYTES, body_limit
from quintet.apis.jsonserver.validation import OPTIONS_PATH, OPTIONS_VOLUME
from quintet.apis.meta import JsonObject

READER: Final = "quintet-read-back"
"""The User-Agent of the operator when it reads the data back: no delay, no fault."""

_ROUTES, _MIDDLEWARE = "routes.json", "middleware.js"
_PREFIX = "example.com/"

# Probes of the kubelet ask for '/', a static page that is served before any middleware.
_SOURCE = """'use strict'
const options = %s

function bodySize (req) {
  const declared = Number(req.headers['content-length'])
  if (declared > 0) return declared
  return req.headers['transfer-encoding'] ? Buffer.byteLength(JSON.stringify(req.body)) : 0
}

function pickFault () {
  let left = Math.random() * 100
  return options.faults.find((fault) => (left -= fault.percent) < 0)
}

module.exports = (req, res, next) => {
  if (req.headers['user-agent'] === options.reader) return next()
  const respond = () => {
    if (bodySize(req) > options.bodyLimit) return res.status(413).json({ error: 'larger than bodyLimit' })
    const fault = pickFault()
    return fault ? res.status(fault.status).json({ error: `fault of ${fault.percent} percent` }) : next()
  }
  const [shortest, longest] = options.delay
  const delay = shortest + Math.random() * (longest - shortest)
  return delay > 0 ? setTimeout(respond, delay) : respond()
}
"""


def is_read_only(spec: JsonServerSpec) -> bool:
    """Return whether writes of clients are rejected."""
    return spec.storage is Storage.READ_ONLY if spec.read_only is None else spec.read_only


def flags(spec: JsonServerSpec) -> list[str]:
    """Return the arguments for the options that are set."""
    found = files(spec)
    return [
        # Without it json-server 0.17 answers a write with success and then crashes, if the file is read-only.
        *(["--read-only"] if is_read_only(spec) else []),
        *(["--id", spec.id_field] if spec.id_field != "id" else []),
        *([] if spec.cors else ["--nc"]),
        *(["--routes", f"{OPTIONS_PATH}/{_ROUTES}"] if _ROUTES in found else []),
        *(["--middlewares", f"{OPTIONS_PATH}/{_MIDDLEWARE}"] if _MIDDLEWARE in found else []),
    ]


def annotations(spec: JsonServerSpec) -> dict[str, str]:
    """Return the annotations of the pods that hold the files."""
    return {f"{_PREFIX}{name}": text for name, text in files(spec).items()}


def volume(spec: JsonServerSpec) -> JsonObject | None:
    """Return the volume with the files, if there are any."""
    items = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{_PREFIX}{name}']"}}
        for name in files(spec)
    ]
    return {"name": OPTIONS_VOLUME, "downwardAPI": {"items": items}} if items else None


def files(spec: JsonServerSpec) -> dict[str, str]:
    """Return the text of each file, by its name."""
    found = {}
    if spec.routes:
        found[_ROUTES] = _encode({route.path: route.target for route in spec.routes})
    if spec.delay is not None or spec.faults or spec.body_limit is not None:
        found[_MIDDLEWARE] = middleware(spec)
    return found


def middleware(spec: JsonServerSpec) -> str:
    """Return the source of the middleware that delays, fails and limits."""
    delay = spec.delay
    shortest = delay.milliseconds if delay is not None else 0
    longest = delay.max_milliseconds if delay is not None else None
    options = {
        "reader": READER,
        "delay": [shortest, shortest if longest is None else longest],
        "faults": msgspec.to_builtins(spec.faults),
        "bodyLimit": body_limit(spec.body_limit) or MOST_BODY_BYTES,
    }
    return _SOURCE % _encode(options)


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
