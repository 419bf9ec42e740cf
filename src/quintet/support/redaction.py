"""Removes secrets from support bundles. Pure.

Objects keep only fields that are known to hold no secrets: identity, status and plain settings. Every other
text is relocationd by its length and a fingerprint, which is the same for equal texts within one bundle and
meaningless outside. Relocationd texts are then removed from logs and messages too, together with everything
that looks like a password, a token or a key.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Any, Final

REMOVED: Final = "<removed>"
MIN_LENGTH: Final = 4
"""Shorter texts are not treated as secrets: removing them would make logs unreadable."""

MIN_EMBEDDED_LENGTH: Final = 8
"""Texts of at least this length are also removed within words."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Keys whose values are the identity, status or plain settings of an object.
_PLAIN: Final = _word_set(
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
_LISTS: Final = _word_set("finalizers accessModes verbs resources apiGroups operations controllers")
# Messages of Quintet and Kubernetes.
_TEXTS: Final = frozenset(("message", "note"))
# Everything below these keys is data of users.
_USERS: Final = _word_set(
    """data stringData binaryData annotations env envFrom args command params results values jsonConfig
    config variables headers httpHeaders parameters content body stdin caBundle"""
)
_LABELS: Final = frozenset(("labels", "matchLabels", "selector", "nodeSelector"))
_KNOWN_LABELS: Final = re.compile(
    r"(app\.kubernetes\.io|kubernetes\.io|[a-z-]+\.kubernetes\.io|quintet\.dev|[a-z.]*kyma-project\.io"
    r"|enge\.me|kiagnose\.io|openebs\.io|example\.com)/|pod-template-hash$"
)
_SAFE: Final = re.compile(r"[\w./:@+=\[\], -]{0,512}", re.ASCII)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_+/=.~!@#$%^&*-]{8,}")

_SENSITIVE = (
    r"pass(?:word|wd|phrase|code)|\bpass\b|pwd|secret|token|api[-_ ]?key|authorization|credentials?|cookie"
    r"|private[-_ ]?key|access[-_ ]?key|signature|\bseed|jwt|nkey"
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\\\"(?:[^\"\\]|\\[^\"])*(?:\\\")?"
_PATTERNS: Final = (
    # A private key of any type, also with line ends escaped as \n.
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
    """The redaction of one bundle. `key`: random and never stored."""

    key: bytes
    with_data: bool = False
    """Whether to keep data of users; text that looks like a secret is removed anyway."""
    _hidden: set[str] = field(default_factory=set)
    _public: set[str] = field(default_factory=set)
    _known: dict[str, list[str]] | None = None
    """Hidden texts by their first characters."""

    def fingerprint(self, text: str) -> str:
        """Return the relocationment of a text: its length and a fingerprint."""
        mark = hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]
        return f"<{len(text)} characters, {mark}>"

    def register(self, value: Any) -> None:
        """Register the hidden and public texts of an object; register all objects before redacting texts."""
        self._register(value, _Location())
        self._known = None

    def object(self, value: Any) -> Any:
        """Return the object without possible secrets."""
        return self._walk(value, _Location())

    def text(self, text: str) -> str:
        """Return the text without texts that are hidden elsewhere or look like secrets."""
        if self._known is None:
            # Text that is public elsewhere in the bundle is no secret; logs without names are useless.
            self._known = _group_by_prefix(self._hidden - self._public)
        return _remove_known(_remove_patterns(text), self._known)

    def _register(self, value: Any, location: "_Location") -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                self._register(each, location.below(key))
        elif isinstance(value, list):
            for each in value:
                self._register(each, location)
        elif isinstance(value, str) and not location.text:
            (self._public if location.allows(value) else self._hidden).update(_secret_candidates(value))

    def _walk(self, value: Any, location: "_Location") -> Any:
        if isinstance(value, dict):
            kept = {key: each for key, each in value.items() if key != "managedFields"}
            return {key: self._walk(each, location.below(key)) for key, each in kept.items()}
        if isinstance(value, list):
            return [self._walk(each, location) for each in value]
        if not isinstance(value, str) or not value:
            return value
        if location.text:
            return self.text(value)
        if location.allows(value) or self.with_data:
            return _remove_patterns(value)
        return self.fingerprint(value)


def _secret_candidates(value: str) -> set[str]:
    """Return the text, its lines and the tokens in it, as far as they may be secret."""
    found = {part.strip() for part in (value, *value.splitlines(), *_TOKEN.findall(value))}
    return {part for part in found if len(part) >= MIN_LENGTH and (len(part) >= 12 or not part.isalpha())}


def _group_by_prefix(parts: set[str]) -> dict[str, list[str]]:
    """Return texts by their first characters; long ones first, so that no rest of them stays."""
    found: dict[str, list[str]] = {}
    for part in sorted(parts, key=lambda each: (-len(each), each)):
        found.setdefault(part[:MIN_LENGTH], []).append(part)
    return found


def _remove_known(text: str, known: dict[str, list[str]]) -> str:
    """Return the text without the known texts, in one pass."""
    if not known:
        return text
    pieces: list[str] = []
    kept = at = 0
    while at < len(text):
        for part in known.get(text[at : at + MIN_LENGTH], ()):
            if text.startswith(part, at) and (
                len(part) >= MIN_EMBEDDED_LENGTH or _is_whole_word(text, at, part)
            ):
                pieces += (text[kept:at], REMOVED)
                at += len(part)
                kept = at
                break
        else:
            at += 1
    return "".join((*pieces, text[kept:]))


def _is_whole_word(text: str, at: int, part: str) -> bool:
    """Return whether the part is a whole word at this position."""
    end = at + len(part)
    return not (text[at - 1 : at].isalnum() if at else False) and not text[end : end + 1].isalnum()


def _remove_patterns(text: str) -> str:
    for pattern in _PATTERNS:
        text = pattern.sub(_relocationment, text)
    return text


@dataclass(frozen=True, slots=True)
class _Location:
    """The kind of location within an object."""

    users: bool = False
    labels: bool = False
    env: bool = False
    plain: bool = False
    text: bool = False

    def below(self, key: str) -> "_Location":
        if self.labels:
            return _Location(users=True, plain=bool(_KNOWN_LABELS.match(key)))
        if self.env and key in ("name", "valueFrom"):
            # The name and the source of an environment variable.
            return _Location(plain=True)
        users = self.users or key in _USERS
        return _Location(
            users=users,
            labels=key in _LABELS and not users,
            env=key == "env" and not self.users,
            plain=not users and (key in _PLAIN or key in _LISTS),
            text=not users and key in _TEXTS,
        )

    def allows(self, value: str) -> bool:
        """Return whether a text may stay at this location."""
        return self.plain and bool(_SAFE.fullmatch(value))


def _relocationment(match: re.Match[str]) -> str:
    kept = match.groupdict().get("kept") or ""
    end = "@" if match.group().endswith("@") and "://" in kept else ""
    return f"{kept}{REMOVED}{end}"
