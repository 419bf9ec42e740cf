"""Writes collected data as the files of a support bundle, redacted, with an index. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quintet.apis.meta import JsonObject
from quintet.manifests.release import archive
from quintet.support.redaction import Redaction

INDEX = "index.md"


@dataclass(frozen=True, slots=True)
class MissingItem:
    """An item that could not be read, and why."""

    what: str
    why: str


@dataclass(slots=True)
class BundleContent:
    """The collected data, not redacted yet."""

    documents: dict[str, Any] = field(default_factory=dict)
    """Path → an object or a list of objects."""
    texts: dict[str, str] = field(default_factory=dict)
    """Path → a log or another text."""
    about: dict[str, str] = field(default_factory=dict)
    """Directory → its description for the index."""
    missing: list[MissingItem] = field(default_factory=list)


def build_archive(
    gathered: BundleContent, redaction: Redaction, root: str, facts: Mapping[str, str]
) -> bytes:
    """Return the support bundle as a tar.gz archive."""
    files = {
        f"{root}/{path}": content.encode()
        for path, content in redact_files(gathered, redaction, facts).items()
    }
    return archive({Path(path): content for path, content in files.items()})


def redact_files(gathered: BundleContent, redaction: Redaction, facts: Mapping[str, str]) -> dict[str, str]:
    """Return path → redacted content; all documents are registered before the first is written."""
    for document in gathered.documents.values():
        redaction.register(document)
    files = {path: _as_text(redaction.object(each)) for path, each in gathered.documents.items()}
    files |= {path: redaction.text(text) for path, text in gathered.texts.items()}
    files[INDEX] = redaction.text(index(gathered, redaction.with_data, facts))
    return files


def index(gathered: BundleContent, with_data: bool, facts: Mapping[str, str]) -> str:
    """Return the index: the content of the bundle, and what could not be read."""
    lines = ["# Support bundle of a Quintet installation", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "## Content", "", "| path | content | files |", "|---|---|---|"]
    paths = [*gathered.documents, *gathered.texts]
    for place, what in gathered.about.items():
        count = sum(path == place or path.startswith(f"{place}/") for path in paths)
        lines.append(f"| `{place}` | {what} | {count} |")
    lines += ["", "## Not readable", ""]
    lines += [f"- {each.what}: {each.why}" for each in gathered.missing] or ["Everything was readable."]
    lines += ["", "## Redaction", ""]
    lines += _REDACTED_WITH_DATA if with_data else _REDACTED
    return "\n".join([*lines, ""])


_NO_SECRETS = (
    "Secrets were not read. Text that looks like a password, token or key was replaced by `<removed>`."
)
_REDACTED = [
    _NO_SECRETS,
    "",
    "Objects contain only their identity, status and plain settings. All other text (values of "
    "environment variables, annotations, arguments, data, configuration) is replaced by its length and a "
    "fingerprint: within this bundle, equal fingerprints mean equal texts; they cannot be reversed. "
    "Replaced text is also removed from logs and messages.",
    "",
    "Names of objects, keys, images and messages are kept. Review the files before you share them.",
]
_REDACTED_WITH_DATA = [
    _NO_SECRETS,
    "",
    "Created with `--with-data`: values of environment variables, annotations, data and configuration are "
    "included. **Treat this bundle as confidential.**",
]


def _as_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def summarize_event(obj: JsonObject) -> JsonObject:
    """Return the relevant fields of an Event."""
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


def sort_events(events: Iterable[JsonObject]) -> list[JsonObject]:
    """Return summaries of Events, oldest first."""
    return sorted(map(summarize_event, events), key=lambda each: str(each["lastSeen"]))
