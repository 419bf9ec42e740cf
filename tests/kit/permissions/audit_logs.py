"""Keeps what the API servers of a test run noted about our accounts, for `kit.permissions.usage` to judge.

On if the variable names a folder. Clusters are then started with an audit log, and `keep` copies it before
the cluster goes.
"""

import os
import secrets
import shutil
from pathlib import Path

from quintet.local.cluster import Cluster

VARIABLE = "QUINTET_RECORD_RIGHTS"


def recording() -> bool:
    """Whether clusters are to keep an audit log."""
    return bool(os.environ.get(VARIABLE))


def keep(cluster: Cluster) -> None:
    """Copy what a cluster has noted; a log that grew large is in several files."""
    if not recording() or cluster.audit_log is None:
        return
    folder = Path(os.environ[VARIABLE])
    folder.mkdir(parents=True, exist_ok=True)
    log = cluster.audit_log
    for path in log.parent.glob(f"{log.stem}*{log.suffix}"):
        shutil.copy(path, folder / f"{cluster.name}-{secrets.token_hex(3)}{log.suffix}")
