"""What the catalog says about a key, in words for people. Pure.

Used by `quintet explain` and by the generated documentation, so that both read alike.
"""

from quintet.apis.eventingbackend.catalog import Key


def usual(key: Key) -> str:
    """What is taken when nothing is written."""
    if key.derived:
        return f"default: {key.derived}"
    if key.default is not None:
        return f"default: {key.default}"
    return "must be set" if key.required else "no default"


def bounds(key: Key) -> list[str]:
    """Which values there may be."""
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
