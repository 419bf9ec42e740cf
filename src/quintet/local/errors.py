"""The error that every module of `local` raises for the user: a message and the next step."""

from __future__ import annotations

import errno


class LocalError(Exception):
    """An error that the user can fix: a message of one line and the next step."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


def explain_os_error(error: OSError) -> LocalError:
    """Return the LocalError for a failed file operation, with the path and the next step."""
    place = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LocalError(f"the disk is full{place}", "free some space and run the command again")
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return LocalError(
            f"no permission to write{place}", "set XDG_CACHE_HOME and XDG_STATE_HOME to writable directories"
        )
    return LocalError(f"{error.strerror or error}{place}", "check this path, then run the command again")
