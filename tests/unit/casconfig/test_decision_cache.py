"""What is remembered of objects, and that it ends with them."""

from quintet.apis.meta import ObjectKey
from quintet.controllers.casconfig.decide.plan import ResolvedConfig
from quintet.controllers.casconfig.decision_cache import ConfigDecisions
from quintet.controllers.casconfig.watches import WatchScope, to_cached_object
from quintet.kube.versions import Versions
from unit.casconfig.objects import DEPLOYMENTS, TEMPLATE, a_deployment, a_policy, a_spec

CONFIG = ObjectKey("shop", "one")
PLACE = WatchScope(ObjectKey("shop", "casconfig"), DEPLOYMENTS, "shop", True)


def test_decision_cache_drops_entries_of_deleted_objects():
    nothing_to_do = a_spec(a_policy(include={"kinds": ["StatefulSet"]}, labels={"a": "1"}))
    decisions = ConfigDecisions(1, ResolvedConfig(CONFIG, nothing_to_do, {}))
    for number in range(3):
        decisions.step(
            PLACE, TEMPLATE, to_cached_object(PLACE, a_deployment(name=f"web-{number}"), Versions())
        )
    assert len(decisions) == 3
    decisions.keep({(DEPLOYMENTS, ObjectKey("shop", f"web-{number}")) for number in (1, 7)})
    assert len(decisions) == 1
