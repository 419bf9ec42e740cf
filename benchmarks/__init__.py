"""Benchmarks: Quintet against the limit of the API server and against other operators, in one run.

Run `python -m benchmarks all` from the root of the repository; docs/performance.md explains the method.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The benchmarks use the recording proxy and the test objects of the tests.
sys.path.insert(0, str(ROOT / "tests"))
