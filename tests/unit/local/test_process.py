import os
import signal
import subprocess
import sys

import pytest

from quintet.local.errors import LocalError
from quintet.local.process import ManagedProcess, ProcessIdentity, end_processes, wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(600)",
]


@pytest.fixture
def process(tmp_path):
    process = ManagedProcess("sleeper", tmp_path)
    yield process
    process.kill()


def test_process_identity_parses_stat_line_with_parentheses_in_name():
    line = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\nboot-1\n"
    assert ProcessIdentity.parse(line) == ProcessIdentity(42, "987654", "boot-1")


@pytest.mark.parametrize(
    "line",
    ["", "42", "42 (cut of", "x (y) S", "0 Sun Nov  1 10:00:00 2026", "1 Sun Nov  1 10:00:00 2026"],
    ids=["empty", "pid only", "truncated", "no pid", "process group", "init"],
)
def test_process_identity_of_incomplete_record_is_none(line):
    assert ProcessIdentity.parse(line) is None


def test_process_identity_uses_start_time_of_ps_without_proc():
    assert ProcessIdentity.parse("42 Sun Nov  1 10:00:00 2026") == ProcessIdentity(
        42, "Sun Nov 1 10:00:00 2026"
    )


def test_process_identity_of_own_process_is_alive():
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert own.is_alive()


def test_process_with_reused_pid_is_not_signalled():
    with subprocess.Popen(SLEEP) as stranger:
        try:
            before = ProcessIdentity(stranger.pid, "1")
            assert not before.is_alive()
            before.send(signal.SIGKILL)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_process_identity_of_earlier_boot_is_not_alive():
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert not ProcessIdentity(own.pid, own.started, "an earlier boot").is_alive()


def test_started_process_does_not_inherit_proxy_and_etcd_variables(process, monkeypatch):
    for name in ("https_proxy", "HTTP_PROXY", "ETCD_DATA_DIR"):
        monkeypatch.setenv(name, "http://192.0.2.1")
    process.start(SLEEP)
    with open(f"/proc/{process.pid}/environ") as file:
        assert "192.0.2.1" not in file.read()


def test_zombie_process_is_not_alive():
    with subprocess.Popen(["true"]) as child:
        wait_until(lambda: ProcessIdentity.of(child.pid) is None, 60, lambda: LocalError("still alive", ""))


# Ends the first thread alone, as a killed program with many threads looks for a moment.
HEADLESS = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def test_process_with_zombie_main_thread_is_alive_until_last_thread_ends(process):
    process.start([sys.executable, "-c", HEADLESS])
    stat = f"/proc/{process.pid}/stat"

    def first_thread_ended() -> bool:
        with open(stat) as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"

    wait_until(first_thread_ended, 60, lambda: process.failure("did not end its first thread"))
    assert process.is_alive()
    process.kill()
    assert not process.is_alive()


def test_started_process_is_recorded_and_can_be_ended(process):
    process.start(SLEEP)
    assert process.is_alive()
    assert ProcessIdentity.of(process.pid) == process.identity
    end_processes([process])
    assert not process.is_alive()


def test_process_that_ignores_sigterm_is_killed_after_grace_period(process):
    process.start(STUBBORN)
    wait_until(lambda: "deaf" in process.log.read_text(), 60, lambda: process.failure("did not start"))
    end_processes([process], grace=0.2)
    assert not process.is_alive()


def test_stopped_process_can_be_ended(process):
    process.start(SLEEP)
    process.send_signal(signal.SIGSTOP)
    end_processes([process], grace=2)
    assert not process.is_alive()


def test_start_again_runs_the_recorded_command(process):
    process.start(SLEEP, environment={"MARK": "kept"})
    first = process.pid
    process.kill()
    process.start_again()
    assert process.pid != first
    with open(f"/proc/{process.pid}/environ") as file:
        assert "MARK=kept" in file.read()


def test_process_failure_quotes_explaining_log_line_and_names_log(process):
    process.log.write_text("I1115 starting\nE1115 10:00:00 bind: address already in use\nI1115 goodbye\n")
    error = process.failure("ended")
    assert error.message == "sleeper ended: E1115 10:00:00 bind: address already in use"
    assert str(process.log) in error.next_step


def test_process_failure_reports_full_disk_before_later_panic(process):
    process.log.write_text(
        '{"level":"warn","msg":"failed to create WAL","error":"no space left on device"}\n'
        "panic: failed to create WAL\n"
        "goroutine 1 [running]:\n"
    )
    error = process.failure("ended")
    assert error.message == "sleeper ended: warn: failed to create WAL: no space left on device"
    assert error.next_step.startswith("free some space")


def test_process_of_missing_program_fails_with_reason(process):
    process.start(["/nowhere/program"])
    wait_until(lambda: not process.is_alive(), 60, lambda: process.failure("still runs"))
    assert "/nowhere/program" in process.find_log_reason()
