"""The one error a user can meet here: what happened, and what to do next.

Raised throughout `local`; the command line prints it as two lines without a traceback.
"""

from __future__ import annotations

import errno


class LocalError(Exception):
    """Something the user can mend: a message of one line and the step that mends it."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


def explain_os_error(error: OSError) -> LocalError:
    """Say a failed file operation in the user's words; a full disk is the usual one."""
    place = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LocalError(f"the disk is full{place}", "free some space and run the command again")
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return LocalError(
            f"no permission to write{place}", "set XDG_CACHE_HOME and XDG_STATE_HOME to writable directories"
        )
    return LocalError(f"{error.strerror or error}{place}", "look at the path named and run the command again")
