"""Benchmarks: Quintet against the limit of the servers and against its peers, in one run.

`python -m benchmarks all` from the root of the repository; how and why: docs/performance.md.
Reading order: `__main__` → `series` → `drain` → `contenders`, `workloads`, `measure` → `report`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The recording proxy and the definitions of test objects are those of the tests.
sys.path.insert(0, str(ROOT / "tests"))
