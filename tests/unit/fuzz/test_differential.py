"""Our parsers and those of h11 and nats-py on the same bytes: every kind of difference is listed and explained.

A difference that no row explains fails. No row allows that both accept a message, but read it differently: that
is how requests are smuggled past a proxy.
"""

import os
import random
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from fuzz import differential as d
from fuzz.differential import Reading
from fuzz.mutations import mutate
from fuzz.targets import corpus

_CASES = 6000


class Difference(NamedTuple):
    """A kind of difference: whose error text (or that the input) tells it, and why it is right."""

    whose: str
    text: str
    why: str

    def explains(self, data: bytes, ours: Reading, theirs: Reading) -> bool:
        if self.whose == "input":
            return re.search(self.text.encode(), data) is not None
        if self.whose == "ours":  # we reject what they accept, or what they still wait for
            fewer = theirs.messages[: len(ours.messages)] == ours.messages
            return fewer and re.search(self.text, ours.reason) is not None
        more = ours.messages[: len(theirs.messages)] == theirs.messages
        return more and re.search(self.text, theirs.reason) is not None


def ours(text: str, why: str) -> Difference:
    """Return a reason for which we reject something, and they do not, or not yet."""
    return Difference("ours", text, why)


def theirs(text: str, why: str) -> Difference:
    """Return a reason for which they reject something, and we do not."""
    return Difference("theirs", text, why)


def of_input(text: str, why: str) -> Difference:
    """Return a kind of input that is read differently."""
    return Difference("input", text, why)


REQUESTS = [
    ours("Invalid method|after method", "llhttp knows a list of methods and rejects others at their first byte"),
    ours("Expected HTTP/|Expected dot|version|Expected CRLF$", "llhttp rejects at the byte, h11 at the end of the head"),
    ours("url|target", "llhttp accepts only the characters of a URL"),
    ours("header token|header field|header value|Expected LF|after start line", "no folded lines, control characters and bare LF or CR"),
    ours("Content-Length|Transfer-Encoding", "a length in doubt is rejected (RFC 9112, 6.3); h11 prefers one"),
    ours("chunk", "llhttp is stricter about sizes and extensions of chunks"),
    of_input("PRI +\\*", "the preface of HTTP/2 is no request of HTTP/1.1; llhttp waits for all of it"),
    theirs("illegal request line: bytearray.b'[A-Z]+ +\\S+ +HTTP", "llhttp skips several spaces in a request line"),
    ours("^417", "an expectation that we cannot meet; applications of h11 decide that"),
    ours("^505", "a version other than 1.0 and 1.1"),
    ours("must not be repeated", "two values of one header could be read differently by a proxy"),
    ours("upgrade", "an upgrade request with a body; applications of h11 decide that"),
    ours("Host header is missing", "h11 checks the head as a whole, with other errors first"),
    ours("HTTP/1.0 does not support", "chunks in HTTP/1.0 (RFC 9112, 6.1)"),
    ours("closes", "the bytes behind the last request of a connection are not read"),
    theirs("no request line received", "h11 allows one empty line before a request; we skip any number of them"),
    theirs("illegal request line$|illegal request line: bytearray.b'\\\\r", "the same, for a CR without LF"),
]  # fmt: skip

RESPONSES = [
    ours("Missing expected CR|Expected LF|CRLF|bare", "no bare LF or CR"),
    ours("header|chunk|Content-Length|Transfer-Encoding", "llhttp is stricter about headers and sizes"),
    ours("HTTP|status|version|constant|dot", "llhttp is stricter about the status line"),
    theirs("Only Transfer-Encoding", "h11 supports no list of codings, and looks at the headers of 1xx responses too"),
    theirs("bad Content-Length", "h11 accepts 20 digits; llhttp reads any number of leading zeros"),
    theirs("illegal status line", "llhttp allows control characters in the reason phrase, which nobody reads"),
    theirs("no response line received", "h11 allows no empty line before a response; we skip them"),
]  # fmt: skip

EVENTS = [
    ours("invalid line", "we reject a line that is no command at its end; nats-py waits for more or skips it"),
    ours("does not end at its announced size", "nats-py does not look at the two bytes behind a message"),
    ours("invalid message size", "nats-py does not compare sizes, and has no highest one"),
    ours("invalid INFO", "nats-py accepts any JSON object"),
    theirs("unknown protocol|waits with", "nats-py needs CRLF, exactly one space, and upper case"),
    of_input(r"HMSG [^\n]*\n\s*\d", "nats-py takes digits behind a line break for the size in that line"),
    theirs("UnicodeDecodeError", "the texts of INFO and -ERR are for people: other bytes are replaced or skipped"),
    theirs("NoneType", "nats-py cannot read an -ERR without text"),
    theirs("RecursionError", "nats-py ends on deep JSON in INFO; we skip unknown fields"),
    theirs("malformed", "nats-py needs sizes right behind the subject"),
]  # fmt: skip


def find_unexplained(
    target: str,
    read: Callable[[bytes], Reading],
    read_theirs: Callable[[bytes], Reading],
    table: list[Difference],
) -> list[str]:
    """Return the unexplained differences; both readings of each."""
    seed = random.randrange(2**32) if os.environ.get("QUINTET_EXPLORE") else 1
    found = []
    for data in [*corpus(target), *mutate(target, _CASES, seed)]:
        mine, other = read(data), read_theirs(data)
        same = (mine.messages, mine.rejected) == (other.messages, other.rejected)
        if not same and not any(each.explains(data, mine, other) for each in table):
            found.append(f"{data!r}\nours: {mine}\ntheirs: {other}")
    return found


@pytest.mark.parametrize(
    ("target", "read", "read_theirs", "table"),
    [
        pytest.param(
            "http-server", d.read_requests_ours, d.read_requests_h11, REQUESTS, id="requests like h11"
        ),
        pytest.param(
            "http-client", d.read_response_ours, d.read_response_h11, RESPONSES, id="responses like h11"
        ),
        pytest.param(
            "nats-protocol", d.read_events_ours, d.read_events_nats_py, EVENTS, id="NATS like nats-py"
        ),
    ],
)
def test_every_difference_from_another_parser_is_explained(target, read, read_theirs, table):
    found = find_unexplained(target, read, read_theirs, table)
    assert not found, f"{len(found)} differences:\n" + "\n\n".join(found[:8])
