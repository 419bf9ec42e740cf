"""What was gathered → the files of an archive, redacted, with an index that says what is there. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quintet.apis.meta import JsonObject
from quintet.cli.support.redaction import Redaction
from quintet.manifests.release import archive

INDEX = "index.md"


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be read, and why."""

    what: str
    why: str


@dataclass(slots=True)
class Gathered:
    """All that was read, not yet redacted."""

    documents: dict[str, Any] = field(default_factory=dict)
    """Path → one object, or a list of them."""
    texts: dict[str, str] = field(default_factory=dict)
    """Path → a log, or another text."""
    about: dict[str, str] = field(default_factory=dict)
    """Folder → what is in it, for the index."""
    missing: list[Missing] = field(default_factory=list)


def packed(gathered: Gathered, redaction: Redaction, root: str, facts: Mapping[str, str]) -> bytes:
    """The whole archive as bytes."""
    files = {
        f"{root}/{path}": content.encode() for path, content in written(gathered, redaction, facts).items()
    }
    return archive({Path(path): content for path, content in files.items()})


def written(gathered: Gathered, redaction: Redaction, facts: Mapping[str, str]) -> dict[str, str]:
    """Path → content. Everything is learned before anything is written."""
    for document in gathered.documents.values():
        redaction.learn(document)
    files = {path: _as_text(redaction.object(each)) for path, each in gathered.documents.items()}
    files |= {path: redaction.text(text) for path, text in gathered.texts.items()}
    files[INDEX] = redaction.text(index(gathered, redaction.with_data, facts))
    return files


def index(gathered: Gathered, with_data: bool, facts: Mapping[str, str]) -> str:
    """What is in the archive, and what is not."""
    lines = ["# Report of a Quintet installation", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "## What is here", "", "| where | what | files |", "|---|---|---|"]
    paths = [*gathered.documents, *gathered.texts]
    for place, what in gathered.about.items():
        count = sum(path == place or path.startswith(f"{place}/") for path in paths)
        lines.append(f"| `{place}` | {what} | {count} |")
    lines += ["", "## What could not be read", ""]
    lines += [f"- {each.what}: {each.why}" for each in gathered.missing] or ["Nothing was missing."]
    lines += ["", "## What was taken out", ""]
    lines += _TAKEN_OUT_WITH_DATA if with_data else _TAKEN_OUT
    return "\n".join([*lines, ""])


_LOOKS = (
    "Secrets were not read. Passwords, tokens and keys, as far as they look like such, were removed from "
    "every text: `<removed>`."
)
_TAKEN_OUT = [
    _LOOKS,
    "",
    "Of objects only who they are, how they stand and plain settings are shown. Every other text (values of "
    "variables, annotations, arguments, data, configuration) is replaced by its length and a fingerprint: "
    "equal fingerprints mean equal texts within this archive, and cannot be turned back. What was replaced "
    "was also removed from logs and messages.",
    "",
    "Names of objects, keys, images and messages are shown. Look through the files before you hand them on.",
]
_TAKEN_OUT_WITH_DATA = [
    _LOOKS,
    "",
    "It was made with `--with-data`: values of variables, annotations, data and configuration are shown as "
    "they are. **Treat it as confidential.**",
]


def _as_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def summary(obj: JsonObject) -> JsonObject:
    """Of an Event what people need."""
    about = obj.get("regarding") or obj.get("involvedObject") or {}
    series = obj.get("series") or {}
    return {
        "lastSeen": series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime") or "",
        "count": series.get("count") or obj.get("deprecatedCount") or obj.get("count") or 1,
        "type": obj.get("type", ""),
        "reason": obj.get("reason", ""),
        "kind": about.get("kind", ""),
        "namespace": about.get("namespace", ""),
        "name": about.get("name", ""),
        "reportingController": obj.get("reportingController") or "",
        "note": obj.get("note") or obj.get("message") or "",
    }


def in_order(events: Iterable[JsonObject]) -> list[JsonObject]:
    """Events from the oldest to the newest."""
    return sorted(map(summary, events), key=lambda each: str(each["lastSeen"]))
