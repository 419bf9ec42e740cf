"""Tests of merging conditions, by the conventions of metav1.Condition."""

from datetime import UTC, datetime

from quintet.apis.meta import Condition
from quintet.apis.meta import find_condition as find
from quintet.runtime.conditions import merge

EARLY, LATE = (datetime(2030, 1, 1, hour, tzinfo=UTC) for hour in (1, 2))


def test_transition_time_changes_only_with_the_status():
    first = merge((), (Condition("Ready", "False", "Starting"),), 1, EARLY)
    second = merge(first, (Condition("Ready", "False", "StillStarting", "more words"),), 2, LATE)
    third = merge(second, (Condition("Ready", "True", "Started"),), 2, LATE)
    assert [find(step, "Ready").last_transition_time for step in (first, second, third)] == [
        "2030-01-01T01:00:00Z",
        "2030-01-01T01:00:00Z",
        "2030-01-01T02:00:00Z",
    ]


def test_merged_conditions_carry_the_observed_generation():
    conditions = merge((), (Condition("Ready", "True", "R"), Condition("Synced", "True", "S")), 7, EARLY)
    assert [condition.observed_generation for condition in conditions] == [7, 7]


def test_merge_keeps_conditions_of_other_types():
    foreign = Condition("Approved", "True", "ByHand", last_transition_time="2029-01-01T00:00:00Z")
    conditions = merge((foreign,), (Condition("Ready", "True", "R"),), 1, EARLY)
    assert find(conditions, "Approved") == foreign
    assert find(conditions, "Missing") is None
