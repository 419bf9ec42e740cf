"""Fault plans: every fault at every place of a story of each kind, judged by what is the same for all kinds.

`stories` tells what users do with each kind, `scene` runs an operator behind a recording proxy, `plans` derives all plans
from a run without faults, `replay` runs one plan and returns what is wrong.
"""
