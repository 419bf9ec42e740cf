"""What a Go program says of itself: the modules that were built into it. Pure; called by `contents`.

Go writes it into every program since 1.18, behind a mark: a header of 32 bytes, then Go's version and the
list of modules, each with its length before it.
"""

from collections.abc import Iterator

_MARK = b"\xff Go buildinf:"
_HEADER = 32
# Bit of the header's last flag: the two texts follow the header.
_TEXTS_FOLLOW = 0x2
# The list stands between two marks of this length.
_FENCE = 16
# The module that a checkout is built from has no version.
_NO_VERSION = "(devel)"


def read_modules(program: bytes) -> Iterator[tuple[str, str]]:
    """Name and version of each module, Go's own library as `stdlib`; nothing if it is no Go program."""
    start = program.find(_MARK)
    while start >= 0 and not _is_header(program, start):
        start = program.find(_MARK, start + 1)
    if start < 0:
        return
    version, after = _text(program, start + _HEADER)
    listed, _ = _text(program, after)
    yield "stdlib", version.decode().removeprefix("go")
    yield from _listed(listed[_FENCE:-_FENCE].decode())


def _is_header(program: bytes, start: int) -> bool:
    # The mark alone also stands in programs that look for it.
    flags = program[start + len(_MARK) + 1 : start + len(_MARK) + 2]
    return start % 16 == 0 and bool(flags) and bool(flags[0] & _TEXTS_FOLLOW)


def _text(program: bytes, at: int) -> tuple[bytes, int]:
    """The text at a place, and the place after it."""
    length = shift = 0
    while True:
        byte = program[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return program[at : at + length], at + length


def _listed(text: str) -> Iterator[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        word, *rest = line.split("\t")
        if word == "=>":
            found[-1] = (rest[0], rest[1])  # built in place of the one before
        elif word in ("mod", "dep"):
            found.append((rest[0], rest[1]))
    yield from ((name, version) for name, version in found if version != _NO_VERSION)
