"""Mutations of a corpus without coverage, for unit tests and differential tests."""

import random

from fuzz.targets import corpus

_TOKENS = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b"\x7f", b"\xff", b":", b",", b";", b'"', b"%", b"0", b"1", b"-1", b"+1",
    b"99999999999999999999", b"_", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n",
    b"Host: b\r\n", b"Connection: close\r\n", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"GET ", b"POST ", b"0\r\n\r\n", b"3\r\nabc\r\n",
    b"MSG a 1 2\r\nhi\r\n", b"HMSG ", b"NATS/1.0\r\n\r\n", b"PING\r\n", b"INFO {}\r\n", b"{}", b"[", b"]", b"null", b"true", b"\\u0000",
]  # fmt: skip
_MOST_BYTES = 2000


def mutate(target: str, count: int, seed: int) -> list[bytes]:
    """Return mutated inputs of a target's corpus; the same seed always gives the same inputs."""
    inputs, chosen = corpus(target), random.Random(seed)
    return [_mutate(chosen.choice(inputs), inputs, chosen) for _ in range(count)]


def _mutate(data: bytes, inputs: list[bytes], chosen: random.Random) -> bytes:
    for _ in range(chosen.randint(1, 4)):
        start = chosen.randint(0, len(data))
        end = min(len(data), start + chosen.randint(0, 8))
        match chosen.randrange(6):
            case 0:
                data = data[:start] + data[end:]
            case 1:
                data = data[:start] + chosen.choice(_TOKENS) + data[start:]
            case 2:
                data = data[:start] + chosen.choice(_TOKENS) + data[end:]
            case 3:
                data = data[:start] + data[start:end] * chosen.randint(2, 40) + data[end:]
            case 4:
                data = data[:start] + bytes([chosen.randrange(256)]) + data[start + 1 :]
            case _:
                other = chosen.choice(inputs)
                data = data[:start] + other[chosen.randint(0, len(other)) :]
    return data[:_MOST_BYTES]
