"""The contract between checkup images and the controller: variables, ConfigMap keys and object names.

Two generations of images are served by one Job. The older ones (A) take their parameters from
variables, the newer ones (B) from the ConfigMap; both write their results to that ConfigMap.
"""

import hashlib
from typing import Final

CONTAINER: Final = "checkup"

# Contract A.
RESULT_CONFIGMAP_NAME: Final = "RESULT_CONFIGMAP_NAME"
RESULT_CONFIGMAP_NAMESPACE: Final = "RESULT_CONFIGMAP_NAMESPACE"
CHECKUP_UID: Final = "CHECKUP_UID"
# Contract B.
CONFIGMAP_NAME: Final = "CONFIGMAP_NAME"
CONFIGMAP_NAMESPACE: Final = "CONFIGMAP_NAMESPACE"
POD_UID: Final = "POD_UID"

VARIABLES: Final = (
    CHECKUP_UID,
    RESULT_CONFIGMAP_NAME,
    RESULT_CONFIGMAP_NAMESPACE,
    CONFIGMAP_NAME,
    CONFIGMAP_NAMESPACE,
    POD_UID,
)
RUNTIME_VARIABLES: Final = ("PATH", "HOSTNAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""Given by the image or the kubelet; without them hardly any image works."""

KEY_TIMEOUT: Final = "spec.timeout"
KEY_PARAM: Final = "spec.param."
KEY_START: Final = "status.startTimestamp"
KEY_COMPLETION: Final = "status.completionTimestamp"
KEY_SUCCEEDED: Final = "status.succeeded"
KEY_FAILURE_REASON: Final = "status.failureReason"
KEY_RESULT: Final = "status.result."

NAME_LABEL: Final = "app.kubernetes.io/name"
APP: Final = "checkup"
UID_LABEL: Final = "kiagnose.io/checkup-uid"
RUN_LABEL: Final = "kiagnose.io/run"
NAME_ANNOTATION: Final = "kiagnose.io/checkup"
"""On pods: the name of their Checkup, which is too long for a label."""

_LONGEST_PREFIX = 40


def object_name(name: str, uid: str, run: int) -> str:
    """Return the name of all objects of one run; nobody can predict it before the Checkup exists."""
    digest = hashlib.blake2b(f"{uid}/{run}".encode(), digest_size=6).hexdigest()
    return f"{name[:_LONGEST_PREFIX].replace('.', '-').rstrip('-')}-{digest}"
