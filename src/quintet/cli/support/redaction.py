"""Keeps secrets out of what is handed to others: objects by what may stay, texts by what must go. Pure.

Of an object only that stays which is known to be no secret: who it is, how it stands, and plain settings.
Every other text becomes its length and a fingerprint, which is the same for the same text within one
archive and tells nothing outside it. What was taken out of any object is then taken out of every
text as well, together with all that looks like a password, a token or a key.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Any, Final

REMOVED: Final = "<removed>"
LEAST: Final = 4
"""Shorter texts are no secrets, and taking them out of logs would leave nothing to read."""

CLEAR: Final = 8
"""Texts of this length are looked for within words, too."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Keys whose values say who an object is, how it stands or how it is run.
_PLAIN: Final = _words(
    """apiVersion kind name namespace generateName uid resourceVersion creationTimestamp deletionTimestamp
    time lastTransitionTime lastUpdateTime lastProbeTime lastHeartbeatTime eventTime firstTimestamp
    lastSeen lastTimestamp lastObservedTime startTime startedAt finishedAt completionTime acquireTime
    renewTime holderIdentity type
    status reason phase state verdict version group plural singular listKind scope
    served storage image imageID containerID nodeName hostIP podIP qosClass restartPolicy imagePullPolicy
    serviceAccount serviceAccountName terminationMessagePolicy dnsPolicy schedulerName protocol clusterIP
    sessionAffinity serviceName storageClassName volumeName accessMode volumeMode topology logLevel
    controller action reportingController reportingInstance component host operation manager
    backend cleanType originalType typeMatching policy cpu memory storage pods ready replicas
    failurePolicy matchPolicy sideEffects blockOwnerDeletion fieldPath"""
)
_LISTS: Final = _words("finalizers accessModes verbs resources apiGroups operations controllers")
# Free text of ours and of Kubernetes, for people.
_TEXTS: Final = frozenset(("message", "note"))
# Below these everything is a user's, whatever it is called.
_USERS: Final = _words(
    """data stringData binaryData annotations env envFrom args command params results values jsonConfig
    config variables headers httpHeaders parameters content body stdin caBundle"""
)
_LABELS: Final = frozenset(("labels", "matchLabels", "selector", "nodeSelector"))
_KNOWN_LABELS: Final = re.compile(
    r"(app\.kubernetes\.io|kubernetes\.io|[a-z-]+\.kubernetes\.io|quintet\.dev|[a-z.]*kyma-project\.io"
    r"|enge\.me|kiagnose\.io|openebs\.io|example\.com)/|pod-template-hash$"
)
_SAFE: Final = re.compile(r"[\w./:@+=\[\], -]{0,512}", re.ASCII)
_LIKE_A_SECRET: Final = re.compile(r"[A-Za-z0-9_+/=.~!@#$%^&*-]{8,}")

_SENSITIVE = (
    r"pass(?:word|wd|phrase|code)|\bpass\b|pwd|secret|token|api[-_ ]?key|authorization|credentials?|cookie"
    r"|private[-_ ]?key|access[-_ ]?key|signature|\bseed|jwt|nkey"
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\\\"(?:[^\"\\]|\\[^\"])*(?:\\\")?"
_PATTERNS: Final = (
    # A whole key of whatever kind, also where a log wrote its ends of lines as \n.
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?P<kept>\b[a-z][a-z0-9+.-]{0,20}://)[^\s\"'<>]{0,1024}@", re.IGNORECASE),
    re.compile(r"(?P<kept>\b(?:bearer|basic|digest|negotiate|token)[\s:=]+)[^\s\"',;]+", re.IGNORECASE),
    re.compile(r"\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?"),
    re.compile(r"\b(?:S[AOUNCX][A-Z2-7]{56}|AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|xox[abprs]-[\w-]{10,})\b"),
    re.compile(
        rf"(?P<kept>(?:{_SENSITIVE})[\w.-]{{0,64}}\\?[\"']?\s*[:=]+\s*)(?:{_QUOTED}|[^\r\n,;&]+)",
        re.IGNORECASE,
    ),
)


@dataclass(slots=True)
class Redaction:
    """One archive's way to take secrets out. `key`: random, and kept nowhere."""

    key: bytes
    with_data: bool = False
    """Whether the data of users may stay; what looks like a secret goes all the same."""
    _hidden: set[str] = field(default_factory=set)
    _public: set[str] = field(default_factory=set)
    _known: dict[str, list[str]] | None = None
    """What is looked for in texts, by its first characters."""

    def fingerprint(self, text: str) -> str:
        """What stands in the place of a text."""
        mark = hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]
        return f"<{len(text)} characters, {mark}>"

    def learn(self, value: Any) -> None:
        """Take note of what an object hides and shows; all of them come before the first text."""
        self._note(value, _Place())
        self._known = None

    def object(self, value: Any) -> Any:
        """An object without what may be a secret."""
        return self._walk(value, _Place())

    def text(self, text: str) -> str:
        """A text without what is known to be hidden elsewhere, or looks like a secret."""
        if self._known is None:
            # What is shown elsewhere in the archive is no secret, and a log without names is of no use.
            self._known = _by_start(self._hidden - self._public)
        return _without(_scrubbed(text), self._known)

    def _note(self, value: Any, place: "_Place") -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                self._note(each, place.below(key))
        elif isinstance(value, list):
            for each in value:
                self._note(each, place)
        elif isinstance(value, str) and not place.text:
            (self._public if place.shows(value) else self._hidden).update(_parts(value))

    def _walk(self, value: Any, place: "_Place") -> Any:
        if isinstance(value, dict):
            kept = {key: each for key, each in value.items() if key != "managedFields"}
            return {key: self._walk(each, place.below(key)) for key, each in kept.items()}
        if isinstance(value, list):
            return [self._walk(each, place) for each in value]
        if not isinstance(value, str) or not value:
            return value
        if place.text:
            return self.text(value)
        if place.shows(value) or self.with_data:
            return _scrubbed(value)
        return self.fingerprint(value)


def _parts(value: str) -> set[str]:
    """A text, its lines, and what in it may be a secret of its own."""
    found = {part.strip() for part in (value, *value.splitlines(), *_LIKE_A_SECRET.findall(value))}
    return {part for part in found if len(part) >= LEAST and (len(part) >= 12 or not part.isalpha())}


def _by_start(parts: set[str]) -> dict[str, list[str]]:
    """Parts by their first characters; long ones first, or a part of one would leave the rest of it."""
    found: dict[str, list[str]] = {}
    for part in sorted(parts, key=lambda each: (-len(each), each)):
        found.setdefault(part[:LEAST], []).append(part)
    return found


def _without(text: str, known: dict[str, list[str]]) -> str:
    """A text without all of these; one pass, however many there are."""
    if not known:
        return text
    pieces: list[str] = []
    kept = at = 0
    while at < len(text):
        for part in known.get(text[at : at + LEAST], ()):
            if text.startswith(part, at) and (len(part) >= CLEAR or _alone(text, at, part)):
                pieces += (text[kept:at], REMOVED)
                at += len(part)
                kept = at
                break
        else:
            at += 1
    return "".join((*pieces, text[kept:]))


def _alone(text: str, at: int, part: str) -> bool:
    """Whether a part is a word of its own there."""
    end = at + len(part)
    return not (text[at - 1 : at].isalnum() if at else False) and not text[end : end + 1].isalnum()


def _scrubbed(text: str) -> str:
    for pattern in _PATTERNS:
        text = pattern.sub(_kept, text)
    return text


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in an object we are."""

    users: bool = False
    labels: bool = False
    env: bool = False
    plain: bool = False
    text: bool = False

    def below(self, key: str) -> "_Place":
        if self.labels:
            return _Place(users=True, plain=bool(_KNOWN_LABELS.match(key)))
        if self.env and key in ("name", "valueFrom"):
            # What a variable is called, and where it comes from.
            return _Place(plain=True)
        users = self.users or key in _USERS
        return _Place(
            users=users,
            labels=key in _LABELS and not users,
            env=key == "env" and not self.users,
            plain=not users and (key in _PLAIN or key in _LISTS),
            text=not users and key in _TEXTS,
        )

    def shows(self, value: str) -> bool:
        """Whether a text may stay here."""
        return self.plain and bool(_SAFE.fullmatch(value))


def _kept(match: re.Match[str]) -> str:
    kept = match.groupdict().get("kept") or ""
    end = "@" if match.group().endswith("@") and "://" in kept else ""
    return f"{kept}{REMOVED}{end}"
