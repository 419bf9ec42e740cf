"""Whatever is written where Kubernetes' own types are meant: it is judged, and nothing breaks."""

import contextlib
import json

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quintet.apis.casconfig.injection import desired_settings
from quintet.apis.casconfig.layers import beneath, build_rewrite
from quintet.apis.casconfig.ledger import LedgerError
from quintet.apis.casconfig.validation import alias_warnings, default, validate
from unit.casconfig.objects import LOW, TEMPLATE, a_deployment, a_policy, a_spec, pod_of

NAMES = (
    "name", "image", "env", "ports", "containerPort", "hostPort", "resources", "limits", "cpu", "securityContext",
    "capabilities", "add", "privileged", "seLinuxOptions", "type", "volumeMounts", "mountPath", "valueFrom", "key",
    "operator", "labels", "annotations", "containers", "livenessProbe", "httpGet", "restartPolicy", "Always", "web",
)  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 90) | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
ANY_OBJECT = st.dictionaries(st.sampled_from(NAMES), ANY, max_size=5)
LIMITS = settings(max_examples=100, suppress_health_check=list(HealthCheck))


@LIMITS
@given(st.lists(ANY_OBJECT, max_size=2), st.lists(ANY_OBJECT, max_size=2), ANY_OBJECT)
@example([{"resources": {"name": {}}}], [], {"resources": [1]})
def test_injection_of_values_of_any_shape_can_be_set_and_undone(sidecars, tolerations, main):
    values = {"sidecars": sidecars, "tolerations": tolerations, "mainContainer": main, "envs": {"E": "1"}}
    validate({"spec": {"policies": [a_policy(**values)]}})
    chosen, live = a_spec(a_policy(**values)).policies, a_deployment()
    asked = desired_settings(chosen, beneath(live, LOW), {}, TEMPLATE)
    after = build_rewrite(live, LOW, asked.settings, TEMPLATE).object
    assert build_rewrite(after, LOW, ()).object["metadata"] == live["metadata"]


@LIMITS
@given(ANY, ANY)
def test_objects_of_any_shape_can_be_targets(containers, metadata):
    live = a_deployment()
    pod_of(live)["containers"] = containers
    live["spec"]["template"]["metadata"] = metadata if isinstance(metadata, dict) else {}
    values = {
        "envs": {"E": "1"},
        "sidecars": [{"name": "web", "image": "x:1", "ports": [{"containerPort": 1}]}],
    }
    asked = desired_settings(a_spec(a_policy(**values)).policies, beneath(live, LOW), {}, TEMPLATE)
    build_rewrite(live, LOW, asked.settings, TEMPLATE)


@LIMITS
@given(ANY)
def test_spec_of_any_shape_is_validated_and_defaulted_without_crash(spec):
    for body in (spec, {"policies": spec}, {"policies": [spec]}, {"policies": [{"values": spec}]}):
        obj = {"metadata": {"name": "x"}, "spec": body}
        validate(obj)
        list(alias_warnings(default(obj)))


@LIMITS
@given(ANY_OBJECT, st.sampled_from(["labels/a", "containers/web", "containers/web/env/E", "tolerations/x"]))
def test_ledger_of_any_shape_is_read_or_refused(entry, path):
    text = json.dumps({"of": "shop/low", "layer": 1, "pod": "spec.template.spec", "set": {path: entry}})
    live = a_deployment(annotations={"casconfig.openebs.io/low": text})
    with contextlib.suppress(LedgerError):
        assert "casconfig.openebs.io/low" not in str(build_rewrite(live, LOW, ()).object)
