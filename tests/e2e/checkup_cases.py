"""The Checkups that test_checkup_on_a_node.py starts together: one for each way in which a run can end."""

from typing import Any

from e2e.checkups import a_checkup, hanging_params
from quintet.local.images import catalog

NOWHERE = "quintet.local/nowhere:1"
REASON = "check: no response from the gateway; check that it runs"
# Valid for a pod but forbidden in a `restricted` namespace; and invalid for any pod.
HOST_NETWORK = {"spec": {"hostNetwork": True}}
CONTRADICTION = {"spec": {"containers": [{"name": "checkup", "securityContext": {"privileged": True}}]}}
READ_ONLY = {
    "spec": {"containers": [{"name": "checkup", "securityContext": {"readOnlyRootFilesystem": True}}]}
}
NO_NODE = {"spec": {"nodeSelector": {"example.com/moon": "full"}}}
GREEDY = ["python3", "-c", "print(len('x' * 10**9))"]
NO_PODS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"pods": "0"}},
}


# Seconds until the kubelet of a busy machine reports why a pod does not start.
TO_START = 60
# Long enough for the container to write a log and partial results before it is stopped.
TO_RUN = 40
# For runs that a test ends: they must still run when their test starts, however late.
TO_HANG = 3600


def run_instead(*command: str, **container: Any) -> dict[str, Any]:
    """Return a pod template that runs another command in the echo image."""
    return {"spec": {"containers": [{"name": "checkup", "command": list(command), **container}]}}


# By name: the Checkup, and other objects of its namespace.
CASES = {
    "passed": (a_checkup("passed", template=READ_ONLY), []),
    "configmap": (a_checkup("configmap", catalog.ECHO_CONFIGMAP, template=READ_ONLY), []),
    "failed": (a_checkup("failed", params={"message": "Hi!", "failure": REASON}), []),
    "input": (a_checkup("input", catalog.ECHO_CONFIGMAP, params={}), []),
    "timed-out": (a_checkup("timed-out", params=hanging_params(), timeoutSeconds=TO_RUN), []),
    "cancelled": (a_checkup("cancelled", params=hanging_params(), timeoutSeconds=TO_HANG), []),
    "deleted": (a_checkup("deleted", params=hanging_params(), timeoutSeconds=TO_HANG), []),
    "bad-image": (a_checkup("bad-image", NOWHERE, timeoutSeconds=TO_START), []),
    "no-account": (a_checkup("no-account", serviceAccountName="nobody", timeoutSeconds=2), []),
    "quota": (a_checkup("quota", timeoutSeconds=TO_START), [NO_PODS]),
    "security": (a_checkup("security", template=HOST_NETWORK, timeoutSeconds=TO_START), []),
    "template": (a_checkup("template", template=CONTRADICTION), []),
    "no-node": (a_checkup("no-node", template=NO_NODE, timeoutSeconds=TO_START), []),
    "no-program": (a_checkup("no-program", template=run_instead("/no/such/program")), []),
    "silent": (a_checkup("silent", template=run_instead("true")), []),
    "crash": (a_checkup("crash", template=run_instead("sh", "-c", "echo about to crash; exit 3")), []),
    "greedy": (
        a_checkup(
            "greedy",
            catalog.ECHO_CONFIGMAP,
            template=run_instead(*GREEDY, resources={"limits": {"memory": "64Mi"}}),
        ),
        [],
    ),
    "pod-deleted": (a_checkup("pod-deleted", params=hanging_params(), timeoutSeconds=TO_HANG), []),
    "basics": (
        a_checkup("basics", catalog.CLUSTER_BASICS, params={"samples": "3"}, template=READ_ONLY),
        [],
    ),
}
# The cases that `make test` uses.
ESSENTIAL = ("passed", "failed")
