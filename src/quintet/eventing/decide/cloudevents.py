"""Parses CloudEvents 1.0 from HTTP requests: binary, structured and batched mode, JSON format. Pure.

All modes give the same `CloudEvent`, with the headers of binary mode, in which events are stored and
delivered. JSON data is not decoded; its bytes are kept unchanged.
"""

import base64
import binascii
import codecs
import functools
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.eventing.decide.headers import (
    CONTENT_TYPE,
    ID,
    PREFIX,
    REQUIRED,
    SOURCE,
    SPEC_VERSION,
    TYPE,
    BadValueError,
    decode_value,
    encode_value,
    is_plain,
)

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
_EVENTS: Final = "application/cloudevents"
JSON: Final = "application/json"

_NON_EMPTY: Final = "MUST be a non-empty string"
_SCALAR: Final = "MUST be a string, an integer or a boolean"
_STRING: Final = "MUST be a string"
_STRINGS: Final = frozenset(
    {"id", "source", "type", "specversion", "datacontenttype", "dataschema", "subject", "time"}
)
"""The attributes of the specification, all of which are strings in JSON; extensions may have other types."""
_NO_MEDIA_TYPE: Final = "datacontenttype: MUST be a media type as in RFC 2046"
_MAX_MEDIA_TYPE_LENGTH: Final = 1024
_REQUIRED: Final = frozenset(REQUIRED)
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
# Codecs of Python that are no character sets. Their time is quadratic: a minute for 40 KB.
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "undefined"})
_INTEGERS: Final = range(-(2**31), 2**31)

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder()


class NotACloudEventError(ValueError):
    """An invalid CloudEvent; the message has one line per problem."""


class CloudEvent(msgspec.Struct, frozen=True, gc=False):
    """One CloudEvent: identity, all attributes as headers, and data."""

    id: str
    source: str
    type: str
    headers: dict[str, str]
    """A percent-encoded `ce-…` header per attribute, and the `content-type` of the data."""
    data: bytes


def parse_events(headers: Mapping[str, str], body: bytes) -> CloudEvent | list[CloudEvent]:
    """Return the event of a request, or the events of a batch; header names are in lower case."""
    content_type = headers.get(CONTENT_TYPE, "")
    if content_type[: len(_EVENTS)].lower() != _EVENTS:
        return _parse_binary(headers, body)
    match content_type.partition(";")[0].rstrip().lower():
        case "application/cloudevents+json":
            return _parse_structured(_check_utf8(content_type, body))
        case "application/cloudevents-batch+json":
            return _parse_batch(_check_utf8(content_type, body))
        case other:
            raise NotACloudEventError(f"Content-Type: MUST be {STRUCTURED} or {BATCH}, not {other[:64]}")


def _check_utf8(content_type: str, body: bytes) -> bytes:
    charset = _CHARSET(content_type)
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise NotACloudEventError(f"Content-Type: the charset MUST be UTF-8, not {charset[1][:64]}")
    try:
        if not body.isascii():
            body.decode()  # the data is kept as bytes, so this is the only check
        return body
    except UnicodeDecodeError as error:
        raise NotACloudEventError(f"the body MUST be UTF-8: {error.reason} at byte {error.start}") from None


def _parse_binary(headers: Mapping[str, str], body: bytes) -> CloudEvent:
    if SPEC_VERSION not in headers:
        raise NotACloudEventError(
            f"not a CloudEvent: no header ce-specversion, and the Content-Type is not {STRUCTURED}"
        )
    attributes: dict[str, str] = {}
    problems: list[str] = []
    for header, text in headers.items():
        if not header.startswith(PREFIX):
            continue
        if is_plain(text):
            value = attributes[header] = text
        else:
            try:
                value = decode_value(text)
                attributes[header] = encode_value(value)
            except BadValueError as error:
                problems.append(f"{header[3:]}: {error}")
                continue
        if header not in _REQUIRED and (problem := _attribute_problem(header[3:], value)):
            problems.append(problem)
    if "ce-datacontenttype" in headers:
        problems.append("datacontenttype: MUST be sent as the Content-Type header")
    elif content_type := headers.get(CONTENT_TYPE):
        attributes[CONTENT_TYPE] = content_type
        if not _is_media_type(content_type):
            problems.append(_NO_MEDIA_TYPE)
    return _build_event(attributes, body, problems)


def _parse_structured(body: bytes) -> CloudEvent:
    try:
        members = _object.decode(body)
    except DECODE_ERRORS as error:
        raise NotACloudEventError(f"the body MUST be a JSON object: {error}") from None
    return _from_members(members)


def _parse_batch(body: bytes) -> list[CloudEvent]:
    try:
        items = _list.decode(body)
    except DECODE_ERRORS as error:
        raise NotACloudEventError(f"the body MUST be a JSON array: {error}") from None
    events: list[CloudEvent] = []
    problems: list[str] = []
    for number, item in enumerate(items, 1):
        try:
            events.append(_parse_structured(bytes(item)))
        except NotACloudEventError as error:
            problems.extend(f"event {number} of {len(items)}: {line}" for line in str(error).splitlines())
    if problems:
        raise NotACloudEventError("\n".join(problems))
    return events


def _from_members(members: dict[str, msgspec.Raw]) -> CloudEvent:
    data, binary = members.pop("data", None), members.pop("data_base64", None)
    attributes: dict[str, str] = {}
    problems: list[str] = []
    content_type = None
    for name, raw in members.items():
        try:
            decoded = _value.decode(raw)
            if decoded is None:
                continue
            if name in _STRINGS and not isinstance(decoded, str):
                raise BadValueError(_STRING)
            value = _canonical(decoded)
            header = PREFIX + name
            attributes[header] = encode_value(value)
        except (BadValueError, *DECODE_ERRORS) as error:
            problems.append(f"{name[:64]}: {error}")
            continue
        if name == "datacontenttype":
            # It becomes the Content-Type header, which is not percent-encoded.
            del attributes[header]
            attributes[CONTENT_TYPE] = content_type = value
        if header not in _REQUIRED and (problem := _attribute_problem(name, value)):
            problems.append(problem)
    payload = b""
    try:
        if binary is not None and (text := _value.decode(binary)) is not None:
            payload = _decode_base64(text, alone=data is None)
        elif data is not None:
            payload = _encode_data(data, content_type or JSON)
            attributes.setdefault(CONTENT_TYPE, JSON)
    except (BadValueError, *DECODE_ERRORS) as error:
        problems.append(str(error))
    return _build_event(attributes, payload, problems)


def _canonical(value: Any) -> str:
    """Return the canonical string of an attribute."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value not in _INTEGERS:
            raise BadValueError("MUST be a 32-bit integer")
        return str(value)
    raise BadValueError(_SCALAR)


def _decode_base64(text: Any, *, alone: bool) -> bytes:
    if not alone:
        raise BadValueError("data, data_base64: MUST NOT both be present")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadValueError("data_base64: MUST be a Base64 string") from None


def _encode_data(data: msgspec.Raw, content_type: str) -> bytes:
    """Return JSON data unchanged; other data is a JSON string, encoded in its charset."""
    if _JSON_TYPE(content_type):
        return bytes(data)
    text = _value.decode(data)
    if not isinstance(text, str):
        raise BadValueError(f"data: MUST be a string, because datacontenttype is {content_type[:64]}")
    found = _CHARSET(content_type)
    charset = found[1] if found else "utf-8"
    try:
        if codecs.lookup(charset).name in _NO_CHARSETS:
            raise LookupError
        return text.encode(charset)
    except (LookupError, UnicodeError):
        raise BadValueError("data: MUST be encodable in the charset of datacontenttype") from None


def _build_event(attributes: dict[str, str], data: bytes, problems: list[str]) -> CloudEvent:
    identity, source, event_type = attributes.get(ID), attributes.get(SOURCE), attributes.get(TYPE)
    if not problems and identity and source and event_type and attributes.get(SPEC_VERSION) == "1.0":
        return CloudEvent(
            _decode_if_encoded(identity),
            _decode_if_encoded(source),
            _decode_if_encoded(event_type),
            attributes,
            data,
        )
    reported = {problem.partition(":")[0] for problem in problems}
    required = [
        f"{name}: {rule}"
        for name, rule in _RULES.items()
        if not attributes.get(PREFIX + name) and name not in reported
    ]
    if attributes.get(SPEC_VERSION) != "1.0" and "specversion" not in reported:
        required.append("specversion: MUST be 1.0")
    raise NotACloudEventError("\n".join([*required, *problems]))


def _decode_if_encoded(header: str) -> str:
    return decode_value(header) if "%" in header else header


def _attribute_problem(name: str, value: str) -> str | None:
    """Return what is wrong with an optional or extension attribute; None if it is valid."""
    match name:
        case "time":
            return None if _is_time(value) else "time: MUST be a timestamp as in RFC 3339"
        case "subject":
            return None if value else f"subject: {_NON_EMPTY}"
        case "datacontenttype":
            return None if _is_media_type(value) else _NO_MEDIA_TYPE
        case "dataschema":
            return None if _SCHEME(value) else "dataschema: MUST be an absolute URI"
        case "data":
            return "data: MUST NOT be the name of an attribute"
    if _NAME(name):
        return None
    return f"{name[:64]}: attribute names MUST consist of lower-case letters and digits"


@functools.lru_cache(maxsize=256)
def _is_media_type(value: str) -> bool:
    return len(value) <= _MAX_MEDIA_TYPE_LENGTH and _MEDIA_TYPE(value) is not None


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
