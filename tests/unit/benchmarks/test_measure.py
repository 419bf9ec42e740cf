"""Statistics of samples, and CPU time and memory of processes."""

import os
from pathlib import Path

import pytest
from benchmarks.measure import Usage, cpu_seconds, memory_mb, paired_ratio, percentile, percentiles

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="accounting is read from /proc")
NOBODY = 2**22 + 1


def test_ratio_is_median_of_paired_ratios():
    # A slow minute hit both of the second pair: the ratio does not see it.
    assert paired_ratio([4.0, 42.0, 4.4], [4.0, 40.0, 4.0]) == pytest.approx(1.05)


def test_ratio_of_unpaired_samples_is_an_error():
    with pytest.raises(ValueError, match="one of each"):
        paired_ratio([1.0], [1.0, 2.0])


@pytest.mark.parametrize(("percent", "value"), [(0, 1.0), (50, 2.5), (100, 4.0)])
def test_percentile_is_interpolated(percent, value):
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value


def test_percentile_of_no_samples_is_an_error():
    with pytest.raises(ValueError, match="no values"):
        percentiles([])


@needs_proc
def test_usage_of_running_process_has_time_and_memory():
    assert cpu_seconds(os.getpid()) > 0
    assert memory_mb(os.getpid()) >= memory_mb(os.getpid(), "VmRSS") > 1


def test_usage_of_ended_process_is_zero():
    assert (cpu_seconds(NOBODY), memory_mb(NOBODY)) == (0.0, 0.0)


def test_usage_difference_is_never_negative():
    before, after = Usage({"etcd": 1.0, "gone": 5.0}), Usage({"etcd": 1.5, "gone": 0.0})
    assert after.since(before) == {"etcd": 0.5, "gone": 0.0}


def test_other_load_excludes_measured_processes():
    before = Usage({"etcd": 1.0}, own=1.0, machine=10.0, at=100.0)
    after = Usage({"etcd": 2.0}, own=1.5, machine=10.0 + 1.5 + (os.cpu_count() or 1), at=102.0)
    assert after.others_since(before) == pytest.approx(0.5)
