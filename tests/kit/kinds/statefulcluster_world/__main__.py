"""Runs sequences and writes what they found: `python -m kit.kinds.statefulcluster_world FIRST LAST [-v]`.

With `bugs` instead of numbers: puts back one bug after the other, and writes which sequence finds it.
"""

import logging
import sys
from collections import defaultdict

from kit.kinds.statefulcluster_world.bugs import BUGS, put_back
from kit.kinds.statefulcluster_world.world import run_sequence

MOST = 3000


def main(arguments: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    if arguments[0] == "bugs":
        for bug in BUGS:
            with put_back(bug):
                _write(f"{bug}: {find_first(MOST)}")
        return
    first, last = int(arguments[0]), int(arguments[1])
    found = defaultdict[str, list[int]](list)
    for seed in range(first, last):
        violation = run_sequence(seed)
        if violation is not None:
            _write(f"{seed}: {violation}")
            if violation.kind not in found and "-v" in arguments:
                _write("\n".join(violation.__notes__))
            found[violation.kind].append(seed)
    _write(f"{last - first} sequences")
    for kind, seeds in sorted(found.items()):
        _write(f"{kind}: {len(seeds)}, the first are {seeds[:12]}")


def find_first(most: int) -> str:
    """Return what the first of `most` sequences that finds something finds."""
    for seed in range(most):
        violation = run_sequence(seed)
        if violation is not None:
            return f"found by sequence {seed} as {violation.kind}"
    return f"not found by {most} sequences"


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


main(sys.argv[1:])
