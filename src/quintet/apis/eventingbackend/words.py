"""Describes options of the catalog for people. Pure.

`quintet explain` and the generated documentation share it.
"""

from quintet.apis.eventingbackend.keys import Key


def usual(key: Key) -> str:
    """Return the description of the default."""
    if key.derived:
        return f"default: {key.derived}"
    if key.default is not None:
        return f"default: {key.default}"
    return "must be set" if key.required else "no default"


def bounds(key: Key) -> list[str]:
    """Return the description of the allowed values."""
    found = []
    if key.allowed:
        found.append(f"one of {', '.join(key.allowed)}")
    if key.minimum is not None:
        found.append(f"from {key.minimum} to {key.maximum}")
    if key.longest is not None:
        found.append(f"at most {key.longest} characters")
    if key.pattern is not None:
        found.append(key.pattern.words)
    return found
