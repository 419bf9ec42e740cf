"""Objects for tests that are about something else."""

from typing import Any


def a_configmap(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap that can be told from those that Kubernetes makes."""
    return {"metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}
