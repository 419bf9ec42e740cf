"""The CEL rules of our CRDs in Python, for validation without an API server.

The key is the rule as in the CRD, so a changed rule is not mistaken for the old one. Rules
about updates are omitted, because a manifest has no old version; so are rules that the validation repeats.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final


def _name_rule(longest: int, pattern: str) -> Callable[[Any], bool]:
    def holds(obj: Any) -> bool:
        name = str(obj["metadata"].get("name", ""))  # a generated name is not known yet
        return not name or (len(name) <= longest and re.fullmatch(pattern, name) is not None)

    return holds


def _at_least(lowest: int) -> Callable[[Any], bool]:
    """Return a rule for a number, or a percentage up to 100."""

    def holds(given: Any) -> bool:
        if not isinstance(given, str):
            return bool(given >= lowest)
        return re.fullmatch("(0|[1-9][0-9]?|100)%", given) is not None and int(given[:-1]) >= lowest

    return holds


def _pod(template: Any) -> Any:
    return template.get("spec") or {}


def _has_name(claim: Any) -> bool:
    return "name" in (claim.get("metadata") or {})


RULES: Final[Mapping[str, Callable[[Any], bool]]] = {
    # JsonServer
    "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')": (
        _name_rule(63, "[a-z]([-a-z0-9]*[a-z0-9])?")
    ),
    # CASConfig
    "size(self.metadata.name) <= 50": _name_rule(50, ".*"),
    # StatefulCluster
    "size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')": (
        _name_rule(52, "[a-z0-9]([-a-z0-9]*[a-z0-9])?")
    ),
    "!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'Always']": (
        lambda template: _pod(template).get("restartPolicy", "") in ("", "Always")
    ),
    "!has(self.spec) || !has(self.spec.activeDeadlineSeconds)": (
        lambda template: "activeDeadlineSeconds" not in _pod(template)
    ),
    "self.type != 'OnDelete' || !has(self.rollingUpdate)": (
        lambda strategy: strategy.get("type") != "OnDelete" or "rollingUpdate" not in strategy
    ),
    "type(self) == int ? self > 0 : self.matches('^([1-9][0-9]?|100)%$')": _at_least(1),
    "type(self) == int ? self >= 0 : self.matches('^([0-9]|[1-9][0-9]|100)%$')": _at_least(0),
    "self.all(each, has(each.metadata) && has(each.metadata.name))": (
        lambda claims: all(map(_has_name, claims))
    ),
}
