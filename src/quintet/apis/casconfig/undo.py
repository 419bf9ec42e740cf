"""Takes back what a config has changed on an object. Pure.

A path gets back what was there before only if it still holds what the config set; otherwise somebody has
changed it since, and it is left and reported. Layers of other configs stay, and show where this one was
above them.
"""

from quintet.apis.casconfig.layers import Rewrite, patched
from quintet.apis.meta import JsonObject, ObjectKey


def undone(live: JsonObject, config: ObjectKey) -> Rewrite:
    """The object without a config; the patch is empty if the config has nothing there.

    Raises `LedgerError` if a ledger on the object cannot be read.
    """
    return patched(live, config, ())
