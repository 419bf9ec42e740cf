"""CloudEvents 1.0 out of HTTP requests: binary, structured and batch, in the JSON format.

Pure; called by the publisher proxy. Every form ends as the same `Event`, whose headers are those of
the binary form, because that is how it is stored and delivered. Data in JSON is not decoded: its
bytes are cut out as they came. A source may hold spaces and the like, which its subject loses.
"""

import base64
import binascii
import functools
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.eventing.decide.headers import PREFIX, BadValueError, decoded, encoded, is_plain

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
_EVENTS: Final = "application/cloudevents"
JSON: Final = "application/json"

_NON_EMPTY: Final = "MUST be a non-empty string"
_SCALAR: Final = "MUST be a string, an integer or a boolean"
_NO_MEDIA_TYPE: Final = "datacontenttype: MUST be a media type as in RFC 2046"
_LONGEST_MEDIA_TYPE: Final = 1024
_REQUIRED: Final = frozenset(("ce-id", "ce-source", "ce-type", "ce-specversion"))
_RULES: Final = {"id": _NON_EMPTY, "source": "MUST be a non-empty URI-reference", "type": _NON_EMPTY}
_NAME = re.compile(r"[a-z0-9]+").fullmatch
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*'`|~%-]+/[\w!#$&^.+*'`|~%-]+\s*(;[\t -~]*)?", re.ASCII).fullmatch
_JSON_TYPE = re.compile(r"[^/;]+/(?:[^;]*\+)?json\s*(?:;.*)?", re.IGNORECASE).fullmatch
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE).search
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.").match
_TIME = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
).fullmatch
_INTEGERS: Final = range(-(2**31), 2**31)

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder()


class NotACloudEventError(ValueError):
    """A request that holds no CloudEvent; says all that is wrong, a line each."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One CloudEvent: what it is known by, all its attributes as headers, and its data."""

    id: str
    source: str
    type: str
    headers: dict[str, str]
    """`ce-…` for every attribute, percent-encoded, and `content-type` for that of the data."""
    data: bytes


def read(headers: Mapping[str, str], body: bytes) -> Event | list[Event]:
    """The event of a request, or those of a batch; names of headers are in lower case."""
    content_type = headers.get("content-type", "")
    if content_type[: len(_EVENTS)].lower() != _EVENTS:
        return _binary(headers, body)
    match content_type.partition(";")[0].rstrip().lower():
        case "application/cloudevents+json":
            return _structured(_utf8(content_type, body))
        case "application/cloudevents-batch+json":
            return _batch(_utf8(content_type, body))
        case other:
            raise NotACloudEventError(f"Content-Type: MUST be {STRUCTURED} or {BATCH}, not {other[:64]}")


def _utf8(content_type: str, body: bytes) -> bytes:
    charset = _CHARSET(content_type)
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise NotACloudEventError(f"Content-Type: the charset MUST be UTF-8, not {charset[1][:64]}")
    try:
        if not body.isascii():
            body.decode()  # data is cut out as it is, so nobody else would look
        return body
    except UnicodeDecodeError as error:
        raise NotACloudEventError(f"the body MUST be UTF-8: {error.reason} at byte {error.start}") from None


def _binary(headers: Mapping[str, str], body: bytes) -> Event:
    if "ce-specversion" not in headers:
        raise NotACloudEventError(
            f"not a CloudEvent: there is neither a header ce-specversion nor the Content-Type {STRUCTURED}"
        )
    kept: dict[str, str] = {}
    faults: list[str] = []
    for header, text in headers.items():
        if not header.startswith(PREFIX):
            continue
        if is_plain(text):
            value = kept[header] = text
        else:
            try:
                value = decoded(text)
                kept[header] = encoded(value)
            except BadValueError as error:
                faults.append(f"{header[3:]}: {error}")
                continue
        if header not in _REQUIRED and (fault := _fault(header[3:], value)):
            faults.append(fault)
    if "ce-datacontenttype" in headers:
        faults.append("datacontenttype: MUST be the header Content-Type, and no other")
    elif content_type := headers.get("content-type"):
        kept["content-type"] = content_type
        if not _is_media_type(content_type):
            faults.append(_NO_MEDIA_TYPE)
    return _checked(kept, body, faults)


def _structured(body: bytes) -> Event:
    try:
        members = _object.decode(body)
    except DECODE_ERRORS as error:
        raise NotACloudEventError(f"the body MUST be a JSON object: {error}") from None
    return _from_members(members)


def _batch(body: bytes) -> list[Event]:
    try:
        items = _list.decode(body)
    except DECODE_ERRORS as error:
        raise NotACloudEventError(f"the body MUST be a JSON array: {error}") from None
    events: list[Event] = []
    faults: list[str] = []
    for number, item in enumerate(items, 1):
        try:
            events.append(_structured(bytes(item)))
        except NotACloudEventError as error:
            faults.extend(f"event {number} of {len(items)}: {line}" for line in str(error).splitlines())
    if faults:
        raise NotACloudEventError("\n".join(faults))
    return events


def _from_members(members: dict[str, msgspec.Raw]) -> Event:
    data, binary = members.pop("data", None), members.pop("data_base64", None)
    kept: dict[str, str] = {}
    faults: list[str] = []
    content_type = None
    for name, raw in members.items():
        try:
            value = _text(_value.decode(raw))
            if value is None:
                continue
            header = PREFIX + name
            kept[header] = encoded(value)
        except (BadValueError, *DECODE_ERRORS) as error:
            faults.append(f"{name[:64]}: {error}")
            continue
        if name == "datacontenttype":
            # A media type is a header of HTTP already, so it stays as it is.
            del kept[header]
            kept["content-type"] = content_type = value
        if header not in _REQUIRED and (fault := _fault(name, value)):
            faults.append(fault)
    payload = b""
    try:
        if binary is not None and (text := _value.decode(binary)) is not None:
            payload = _from_base64(text, alone=data is None)
        elif data is not None:
            payload = _content(data, content_type or JSON)
            kept.setdefault("content-type", JSON)
    except (BadValueError, *DECODE_ERRORS) as error:
        faults.append(str(error))
    return _checked(kept, payload, faults)


def _text(value: Any) -> str | None:
    """The canonical text of an attribute; None if it is unset."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value not in _INTEGERS:
            raise BadValueError("MUST be an integer of 32 bits")
        return str(value)
    raise BadValueError(_SCALAR)


def _from_base64(text: Any, *, alone: bool) -> bytes:
    if not alone:
        raise BadValueError("data, data_base64: MUST NOT be there both")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadValueError("data_base64: MUST be a string in Base64") from None


def _content(data: msgspec.Raw, content_type: str) -> bytes:
    """JSON as it came; anything else is the text of a JSON string, in its own charset."""
    if _JSON_TYPE(content_type):
        return bytes(data)
    text = _value.decode(data)
    if not isinstance(text, str):
        raise BadValueError(f"data: MUST be a string, because datacontenttype is {content_type[:64]}")
    charset = _CHARSET(content_type)
    try:
        return text.encode(charset[1] if charset else "utf-8")
    except (LookupError, UnicodeEncodeError):
        raise BadValueError("data: MUST be text of the charset that datacontenttype names") from None


def _checked(kept: dict[str, str], data: bytes, faults: list[str]) -> Event:
    identity, source, event_type = kept.get("ce-id"), kept.get("ce-source"), kept.get("ce-type")
    if not faults and identity and source and event_type and kept.get("ce-specversion") == "1.0":
        return Event(_value_of(identity), _value_of(source), _value_of(event_type), kept, data)
    said = {fault.partition(":")[0] for fault in faults}
    required = [
        f"{name}: {rule}" for name, rule in _RULES.items() if not kept.get(PREFIX + name) and name not in said
    ]
    if kept.get("ce-specversion") != "1.0" and "specversion" not in said:
        required.append("specversion: MUST be 1.0")
    raise NotACloudEventError("\n".join([*required, *faults]))


def _value_of(header: str) -> str:
    return decoded(header) if "%" in header else header


def _fault(name: str, value: str) -> str | None:
    """What is wrong with an attribute that an event need not have."""
    match name:
        case "time":
            return None if _is_time(value) else "time: MUST be a timestamp as in RFC 3339"
        case "subject":
            return None if value else f"subject: {_NON_EMPTY}"
        case "datacontenttype":
            return None if _is_media_type(value) else _NO_MEDIA_TYPE
        case "dataschema":
            return None if _SCHEME(value) else "dataschema: MUST be an absolute URI"
    if _NAME(name):
        return None
    return f"{name[:64]}: names of attributes MUST consist of lower-case letters and digits"


@functools.lru_cache(maxsize=256)
def _is_media_type(value: str) -> bool:
    return len(value) <= _LONGEST_MEDIA_TYPE and _MEDIA_TYPE(value) is not None


def _is_time(value: str) -> bool:
    if (found := _TIME(value)) is None:
        return False
    year, month, day = found.groups()
    if day <= "28":
        return True
    try:
        date(int(year) or 4, int(month), int(day))
    except ValueError:
        return False
    return True
