"""Checkup results of every size and format, within the limits of the real API server."""

import base64
import json

import pytest

from kit.kinds.checkups import SimulatedPod, create, run_name, wait_for_verdict, write_results
from quintet.apis.checkup.types import MAX_RESULT_BYTES
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.checkup.decide import desired
from quintet.kube.client import Client
from quintet.kube.errors import ApiError

GOOD = {"status.succeeded": "true", "status.failureReason": ""}
FRAME = len(json.dumps(json.dumps({"text": ""})))


async def run_with_results(client: Client, namespace: str, data: dict[str, str], verdict: str):
    key = await create(client, namespace, "sized")
    pod = await SimulatedPod.wait_for(client, key)
    await pod.start()
    await write_results(client, key, data)
    await pod.terminate()
    return (await wait_for_verdict(client, key, verdict)).status


@pytest.mark.parametrize("size", [1, 1024, MAX_RESULT_BYTES - FRAME], ids=["1 B", "1 KiB", "at the limit"])
async def test_results_within_limit_are_stored_completely(
    size, checkup_operator, checkups: Client, namespace
):
    text = "x" * size
    status = await run_with_results(checkups, namespace, {**GOOD, "status.result.text": text}, "Passed")
    assert json.loads(status.results) == {"text": text}
    assert status.result_map == {"text": text}


async def test_checkup_without_results_passes(checkup_operator, checkups: Client, namespace):
    status = await run_with_results(checkups, namespace, GOOD, "Passed")
    assert (status.results, status.result_map) == ("", {})


@pytest.mark.parametrize(
    "text",
    ["x" * (MAX_RESULT_BYTES - FRAME + 1), "x" * (900 * 1024), '"' * (MAX_RESULT_BYTES // 2)],
    ids=["one byte over the limit", "900 KiB", "quotes that JSON escapes"],
)
async def test_results_over_limit_are_rejected_completely(
    text, checkup_operator, checkups: Client, namespace
):
    status = await run_with_results(
        checkups, namespace, {**GOOD, "status.result.text": text, "status.result.a": "b"}, "Failed"
    )
    assert status.reason == "ResultsTooLarge"
    assert f"more than the {MAX_RESULT_BYTES} that the status takes" in status.message
    assert (status.results, status.result_map) == ("", {}), "partial results were written"


async def test_api_server_rejects_results_over_one_mebibyte(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "huge")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    with pytest.raises(ApiError) as refusal:
        await write_results(checkups, key, {**GOOD, "status.result.text": "x" * (1024 * 1024 + 1)})
    assert refusal.value.status.code in (413, 422)
    await pod.terminate(1)
    status = (await wait_for_verdict(checkups, key, "Failed")).status
    assert (status.reason, "results: succeeded field is missing" in status.message) == (
        "ContainerFailed",
        True,
    )


async def test_binary_results_are_rejected(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "binary")
    pod = await SimulatedPod.wait_for(checkups, key)
    where = ObjectKey(namespace, await run_name(checkups, key))
    packed = base64.b64encode(b"\x00\xff").decode()
    await checkups.patch(
        desired.CONFIG_MAPS, where, {"binaryData": {"status.result.x": packed}, "data": GOOD}, Object
    )
    await pod.terminate()
    status = (await wait_for_verdict(checkups, key, "Failed")).status
    assert status.reason == "ResultsBinary"
    assert "binaryData (status.result.x)" in status.message
