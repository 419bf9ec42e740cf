"""Reads the modules of a Go program from its build information. Pure.

Since 1.18, Go writes into every program: a magic string, a header of 32 bytes, Go's version and the list of
modules, both with a length prefix.
"""

from collections.abc import Iterator

_MAGIC = b"\xff Go buildinf:"
_HEADER = 32
# Flag in the header: both strings follow the header.
_INLINE_STRINGS = 0x2
# The module list is enclosed in two markers of this length.
_MARKER = 16
# The version of a module that is built from a checkout.
_NO_VERSION = "(devel)"


def read_modules(program: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and version of each module, with Go's library as `stdlib`; nothing for other programs."""
    start = program.find(_MAGIC)
    while start >= 0 and not _is_header(program, start):
        start = program.find(_MAGIC, start + 1)
    if start < 0:
        return
    version, after = _read_string(program, start + _HEADER)
    listed, _ = _read_string(program, after)
    yield "stdlib", version.decode().removeprefix("go")
    yield from _parse_modules(listed[_MARKER:-_MARKER].decode())


def _is_header(program: bytes, start: int) -> bool:
    # Programs that search for the magic string contain it too, without a valid header.
    flags = program[start + len(_MAGIC) + 1 : start + len(_MAGIC) + 2]
    return start % 16 == 0 and bool(flags) and bool(flags[0] & _INLINE_STRINGS)


def _read_string(program: bytes, at: int) -> tuple[bytes, int]:
    """Return the string at an offset, and the offset after it."""
    length = shift = 0
    while True:
        byte = program[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return program[at : at + length], at + length


def _parse_modules(text: str) -> Iterator[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        word, *rest = line.split("\t")
        if word == "=>":
            found[-1] = (rest[0], rest[1])  # replaces the previous module
        elif word in ("mod", "dep"):
            found.append((rest[0], rest[1]))
    yield from ((name, version) for name, version in found if version != _NO_VERSION)
