"""Tries random sequences of what configs and others do to an object, as many as asked for.

`PYTHONPATH=tests python -m unit.casconfig.campaign 50000 [SEED]` prints what breaks the rules.
"""

import multiprocessing
import random
import sys
from collections.abc import Iterator
from typing import NamedTuple

from unit.casconfig.worlds import CONFIGS, OPERATIONS, World

AT_A_TIME = 250


class Sequence(NamedTuple):
    start: int
    steps: list[tuple[int, int, int]]
    order: list[object]

    def violation(self) -> str:
        """Return what is wrong after the sequence, or nothing."""
        try:
            World(self.start).run(self.steps, self.order)
        except Exception as error:  # whatever a rule raises is wrong
            trace = error.__traceback__
            while trace.tb_next is not None:
                trace = trace.tb_next
            return f"{trace.tb_frame.f_code.co_name}: {type(error).__name__}: {str(error)[:80]}"
        return ""

    def shortened(self) -> "Sequence":
        """Return the sequence without the steps that the violation does not need."""
        at = 0
        while at < len(self.steps):
            less = self._replace(steps=self.steps[:at] + self.steps[at + 1 :])
            self, at = (less, at) if less.violation() else (self, at + 1)
        return self


def draw(seed: str, operations: tuple[int, ...] = OPERATIONS) -> Sequence:
    """Return the sequence of a seed."""
    numbers = random.Random(seed)
    steps = [
        (numbers.choice(operations), numbers.randrange(3), numbers.randrange(4096))
        for _ in range(numbers.randrange(9))
    ]
    return Sequence(numbers.randrange(512), steps, numbers.sample(CONFIGS, 3))


def violations(seed: str, count: int, operations: tuple[int, ...] = OPERATIONS) -> Iterator[Sequence]:
    """Yield the sequences that break the rules."""
    for number in range(count):
        sequence = draw(f"{seed}/{number}", operations)
        if sequence.violation():
            yield sequence


def _try_some(seed: str) -> list[Sequence]:
    return [sequence.shortened() for sequence in violations(seed, AT_A_TIME)]


def main(count: int, seed: str = "0") -> int:
    """Try so many sequences on all processors; return 1 if one breaks the rules."""
    found, parts = 0, -(-count // AT_A_TIME)
    with multiprocessing.Pool() as pool:
        for done, broken in enumerate(
            pool.imap_unordered(_try_some, [f"{seed}/{n}" for n in range(parts)]), 1
        ):
            found += len(broken)
            for each in broken:
                sys.stdout.write(f"{each.violation()}\n    {each}\n")
            if not done % 20 or done == parts:
                sys.stdout.write(f"{done * AT_A_TIME} sequences, {found} violations\n")
                sys.stdout.flush()
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:3]))
