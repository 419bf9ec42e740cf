"""Parameters of requests to the API server. Pure."""

from quintet.apis.meta import JsonObject


def selector_params(labels: str, fields: str) -> dict[str, str]:
    """Return the parameters that select objects by labels and fields."""
    params = {}
    if labels:
        params["labelSelector"] = labels
    if fields:
        params["fieldSelector"] = fields
    return params


def delete_options(
    uid: str | None, resource_version: str | None, propagation: str | None, grace_seconds: int | None
) -> JsonObject:
    """Return the body of a request to delete an object."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if any(preconditions.values()):
        options["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
