"""The reference of all reasons, from the tables on the documentation pages of the kinds.

A table belongs to it if a column is headed `reason` or `reasons`. `quintet explain` reads the data file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

DATA = Path("src/quintet/inspect/reasons.json")
PAGE = Path("docs/reasons.md")
EVERY_KIND = Path("docs/troubleshooting.md")
"""The page of the reasons that every kind has."""

_HEADER = "<!-- Generated from the pages of the kinds by `make generate`. Changes here are overwritten. -->\n"
_INTRODUCTION = """\
# Reasons

Every reason of a condition, a verdict, a plan or a target, for each kind. `quintet explain KIND NAME` shows
the one of an object.
"""
_CELL = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
Entry = dict[str, str]


def reason_files(root: Path, pages: Mapping[str, Path]) -> dict[Path, str]:
    """Return the data file and the page; `pages` has the path of the page of each kind."""
    entries = [
        entry
        for kind, path in [*pages.items(), ("", EVERY_KIND)]
        for entry in read_reasons(kind, path, (root / path).read_text(encoding="utf-8"))
    ]
    data = json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
    return {DATA: data, PAGE: _page(entries)}


def read_reasons(kind: str, path: Path, text: str) -> Iterator[Entry]:
    """Return the reasons in the tables of a page: kind, reason, condition, meaning, action and link."""
    anchor, columns, condition = "", dict[str, int](), ""
    for line in text.splitlines():
        if line.startswith("#"):
            anchor = _anchor(line.lstrip("# "))
        if not line.startswith("|"):
            columns = {}
        elif not columns:
            columns, condition = _columns(_cells(line)), ""
        elif "reason" in columns and not line.startswith("|--"):
            cells = _cells(line)
            condition = cells[columns["condition"]] or condition if "condition" in columns else ""
            for reason in re.findall(r"`([A-Z][^`]*)`", cells[columns["reason"]]):
                yield {
                    "kind": kind,
                    "reason": reason,
                    "condition": condition.replace("`", ""),
                    "meaning": cells[columns["meaning"]] if "meaning" in columns else "",
                    "action": cells[columns["action"]] if "action" in columns else "",
                    "link": f"{path}#{anchor}",
                }


def _columns(titles: list[str]) -> dict[str, int]:
    """Return the positions of the known columns; without a column of reasons, the table is another one."""
    found = {}
    for number, title in enumerate(titles):
        if title in ("reason", "reasons") or title.startswith("reason of"):
            found["reason"] = number
        elif title in ("condition", "verdict", "action", "state"):
            found["condition"] = number
        elif title == "meaning":
            found["meaning"] = number
        elif title.startswith("what to") or title == "meaning, and what to do":
            found["action"] = number
    return found if "reason" in found else {"": 0}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _CELL.split(line)[1:-1]]


def _anchor(title: str) -> str:
    """Return the anchor that Markdown renderers give to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _page(entries: list[Entry]) -> str:
    sections = [_HEADER + _INTRODUCTION]
    for kind in dict.fromkeys(entry["kind"] for entry in entries):
        rows = [_row(entry) for entry in entries if entry["kind"] == kind]
        title = kind or "Every kind"
        head = "| reason | of | meaning | what to do |\n|---|---|---|---|\n"
        sections.append(f"## {title}\n\n{head}" + "".join(f"{row}\n" for row in rows))
    return "\n".join(sections)


def _row(entry: Entry) -> str:
    page = entry["link"].removeprefix("docs/")
    name = f"[`{entry['reason']}`]({page})"
    base = page.partition("#")[0]
    cells = (
        _LINK.sub(lambda match: f"]({match[1] or base}{match[2] or ''})", entry[key])
        for key in ("meaning", "action")
    )
    return f"| {name} | {entry['condition']} | {' | '.join(cells)} |"
