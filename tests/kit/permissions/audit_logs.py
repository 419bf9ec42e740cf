"""Copies the audit logs of a test run for `kit.permissions.usage`.

It is on if the environment variable names a folder. Clusters are then started with an audit log, and `copy_audit_log`
copies it before the cluster is deleted.
"""

import os
import secrets
import shutil
from pathlib import Path

from quintet.local.cluster import Cluster

VARIABLE = "QUINTET_RECORD_RIGHTS"


def is_recording() -> bool:
    """Return whether clusters write an audit log."""
    return bool(os.environ.get(VARIABLE))


def copy_audit_log(cluster: Cluster) -> None:
    """Copy the audit log of a cluster; a rotated log has several files."""
    if not is_recording() or cluster.audit_log is None:
        return
    folder = Path(os.environ[VARIABLE])
    folder.mkdir(parents=True, exist_ok=True)
    log = cluster.audit_log
    for path in log.parent.glob(f"{log.stem}*{log.suffix}"):
        shutil.copy(path, folder / f"{cluster.name}-{secrets.token_hex(3)}{log.suffix}")
