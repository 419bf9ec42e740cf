"""What a refusal of the API server means for a run."""

import json
from typing import Any

import pytest

from quintet.controllers.checkup.decide.observed import ObstacleReason
from quintet.controllers.checkup.setup import refusal
from quintet.kube.errors import Forbidden, Invalid, error_for

IN_TEMPLATE = {
    "reason": "FieldValueNotFound",
    "field": "spec.template.spec.containers[0].volumeMounts[0].name",
}
REPLACED = {"reason": "FieldValueInvalid", "field": "metadata.uid"}
POLICY = {"message": "failed expression: false"}


def refused(code: int, reason: str, *causes: dict[str, str]) -> Forbidden | Invalid:
    status: dict[str, Any] = {"code": code, "reason": reason, "message": "no", "details": {"causes": causes}}
    error = error_for("POST /x", code, json.dumps(status).encode())
    assert isinstance(error, Forbidden | Invalid)
    return error


@pytest.mark.parametrize(
    ("error", "want", "lasting"),
    [
        pytest.param(
            refused(422, "Invalid", IN_TEMPLATE), ObstacleReason.INVALID_TEMPLATE, True, id="template"
        ),
        pytest.param(refused(422, "Invalid", POLICY), ObstacleReason.SETUP_REFUSED, False, id="policy"),
        pytest.param(refused(422, "Invalid", REPLACED), ObstacleReason.SETUP_REFUSED, False, id="replaced"),
        pytest.param(refused(422, "Invalid"), ObstacleReason.SETUP_REFUSED, False, id="no cause"),
        pytest.param(refused(403, "Forbidden"), ObstacleReason.SETUP_REFUSED, False, id="quota"),
    ],
)
def test_refusal_ends_a_run_only_if_it_names_the_template(error, want, lasting):
    found = refusal(error)
    assert (found.reason, found.message, found.lasting) == (want, "no", lasting)
