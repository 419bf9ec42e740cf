"""Preview of the children of a Checkup."""

import msgspec

from quintet.apis.checkup import Checkup
from quintet.apis.checkup.contract import object_name
from quintet.apis.meta import JsonObject
from quintet.controllers.checkup.decide import desired
from quintet.controllers.preview import Images, Preview, with_uid


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return the ConfigMap, the Role with its binding, and the Job of the next run."""
    checkup = msgspec.convert(with_uid(obj), Checkup)
    run = max(checkup.status.run, 1)
    name = object_name(checkup.metadata.name, checkup.metadata.uid, run)
    account = checkup.spec.service_account_name
    notes = [f"The ServiceAccount {account} must exist; nothing is created before."]
    if not obj["metadata"].get("uid"):
        name = f"{name.rpartition('-')[0]}-<digest>"
        notes.append("The names of the children depend on the uid that the API server assigns.")
    children = (
        desired.config_map(checkup, name),
        desired.role(checkup, name),
        desired.role_binding(checkup, name),
        desired.job(checkup, name, run),
    )
    return Preview(children, tuple(notes))
