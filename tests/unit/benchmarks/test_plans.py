"""Prepared requests create the same children as Quintet."""

import json

from benchmarks import plans
from benchmarks.parts import micro
from benchmarks.workloads import Workload

from quintet.apis.jsonserver import JSONSERVERS, JsonServer, JsonServerSpec
from quintet.apis.meta import ObjectMeta
from quintet.controllers.jsonserver.decide import desired
from quintet.runtime.ownership import with_ownership


def a_server(name: str, namespace: str = "bench", uid: str = "u-1") -> JsonServer:
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid, generation=1)
    return JsonServer(metadata=meta, spec=JsonServerSpec(json_config="{}"))


def test_cheapest_unit_has_three_posts_and_one_patch():
    unit = plans.cheapest(a_server("app-000001"))
    assert [each.method for each in unit] == ["POST", "POST", "POST", "PATCH"]
    kinds = [each.body["kind"] for each in unit[:3]]
    assert kinds == ["ConfigMap", "Service", "Deployment"]
    assert unit[3].path.startswith(JSONSERVERS.path("bench", "app-000001", "status"))
    assert unit[3].body["status"]["state"] == "Synced"


def test_plan_children_equal_quintet_children_without_hash_label():
    server = a_server("app-000001")
    own = with_ownership(desired.config_map(server), server, JSONSERVERS)
    del own["metadata"]["annotations"]
    assert plans.cheapest(server)[0].body == own


def test_recorded_requests_are_renamed_in_path_and_body():
    old, new = a_server("app-recorded-1", "bench-recorded", "u-old"), a_server("app-2", "other", "u-new")
    unit = plans.rename_requests(plans.cheapest(old), old, new)
    assert json.dumps(unit) == json.dumps(plans.cheapest(new))


def test_plan_file_has_one_line_per_unit(tmp_path):
    units = [plans.cheapest(a_server(name)) for name in Workload(3).names()]
    lines = plans.write(tmp_path / "plan", units).read_text().splitlines()
    assert len(lines) == 3
    assert set(json.loads(lines[0])[0]) == {"method", "path", "contentType", "body"}


def test_sample_deployment_equals_desired_state():
    assert micro.paths()["diff: is the child as wanted"]() is True


def test_every_micro_benchmark_has_a_baseline():
    found = micro.measure_paths(repeat=1, number=1)
    assert {each.name for each in found} == set(json.loads(micro.BASELINE.read_text()))
    assert all(each.ratio > 0 for each in found)
    assert len(micro.rows(found)) == len(found)
