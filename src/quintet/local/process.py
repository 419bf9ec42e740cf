"""Starts, finds and stops the processes of a cluster.

A process is identified by its pid *and* its start time. The process records both itself before it executes
its program: a crash of the caller loses no process, and a foreign process that later gets the same pid is
never signalled.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.errors import LocalError
from quintet.local.paths import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# The outer shell exits at once, so that init adopts and reaps the program.
DETACH = 'sh -c "$0" "$@" &'
# $0 is the record file, $1 the cgroup.procs file of the cluster's cgroup or /dev/null; exec keeps the pid.
RECORD_AND_BECOME = """
boot=
if [ -r /proc/$$/stat ]; then read -r line </proc/$$/stat; read -r boot </proc/sys/kernel/random/boot_id
else line="$$ $(ps -o lstart= -p $$)"; fi
printf '%s\\n%s\\n' "$line" "$boot" >"$0" && echo $$ >"$1" && shift && exec "$@"
"""
BOOT = Path("/proc/sys/kernel/random/boot_id")
GRACE = 5.0
# Log texts that explain why a process ended, the most specific first.
CAUSES = ("no space left on device", "address already in use", "too many open files", "permission denied")
REASONS = ("F1", "E1", "error", "Error", "panic", "failed", "sh: ")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The process that had a pid when the pid was recorded."""

    pid: int
    started: str
    # The start time is relative to the boot of the machine, so the boot id is part of the identity.
    boot: str = ""

    @classmethod
    def parse(cls, record: str) -> ProcessIdentity | None:
        """Parse the line of /proc/PID/stat and the boot id; without /proc, the `PID START` of `ps`."""
        line, _, boot = record.partition("\n")
        pid, _, rest = line.strip().partition(" ")
        if not pid.isdigit() or int(pid) <= 1 or not rest:
            return None
        if rest.startswith("("):
            # The program's name may contain spaces and parentheses: count fields after the last parenthesis.
            fields = rest.rpartition(")")[2].split()
            return (
                cls(int(pid), fields[19], boot.strip()) if len(fields) > 19 and boot.endswith("\n") else None
            )
        return cls(int(pid), " ".join(rest.split()))

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the process that has this pid now; None if there is none, or only a zombie."""
        record = _read_stat(pid)
        found = cls.parse(record)
        return None if found is None or _is_dead(record) else found

    def is_alive(self) -> bool:
        """Return whether this process still runs; another process with the same pid does not count."""
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: int) -> None:
        """Send a signal to this process; do nothing if it has ended."""
        teardown.signal_process(self.pid, number, self.is_alive)


def _is_dead(record: str) -> bool:
    """Return whether no thread of a process runs: the main thread can be a zombie while others hold ports."""
    fields = record.rpartition(")")[2].split()
    state, threads = (fields[0], fields[17]) if len(fields) > 17 else ("", "1")
    return state in ("Z", "X") and int(threads) <= 1


def _read_stat(pid: int) -> str:
    if platform.system() == "Linux":
        try:
            return Path(f"/proc/{pid}/stat").read_text() + BOOT.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return ""
    result = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return f"{pid} {result.stdout}" if result.stdout.strip() else ""


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """A process of a cluster; `directory` holds its record NAME.pid, command NAME.json and log NAME.log."""

    name: str
    directory: Path

    @property
    def log(self) -> Path:
        """The file that receives the output of the process."""
        return self.directory / f"{self.name}.log"

    @property
    def identity(self) -> ProcessIdentity | None:
        """The process that was started last under this name; None if there is none."""
        try:
            return ProcessIdentity.parse((self.directory / f"{self.name}.pid").read_text())
        except FileNotFoundError:
            return None

    @property
    def pid(self) -> int:
        """The pid of the running process."""
        found = self.identity
        if found is None or not found.is_alive():
            raise LocalError(f"{self.name} is not running", f"look at {self.log}")
        return found.pid

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        found = self.identity
        return found is not None and found.is_alive()

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        cgroup: Path | None = None,
        descriptors: tuple[int, ...] = (),
    ) -> None:
        """Start the program in a new session and wait until its record exists."""
        self.directory.mkdir(parents=True, exist_ok=True)
        enter = str(cgroup / "cgroup.procs") if cgroup else os.devnull
        specification = {"argv": list(argv), "environment": environment or {}, "cgroup": enter}
        write_file(self.directory / f"{self.name}.json", json.dumps(specification))
        self._launch(list(argv), environment or {}, enter, descriptors)

    def start_again(self) -> None:
        """Start the recorded command again."""
        specification = json.loads((self.directory / f"{self.name}.json").read_text())
        self._launch(specification["argv"], specification["environment"], specification["cgroup"], ())

    def _launch(
        self, argv: list[str], environment: dict[str, str], enter: str, descriptors: tuple[int, ...]
    ) -> None:
        record = self.directory / f"{self.name}.pid"
        teardown.remove_file(record, within=self.directory)
        with self.log.open("ab") as log:
            subprocess.run(
                ["sh", "-c", DETACH, RECORD_AND_BECOME, str(record), enter, *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_inherited_environment() | environment,
                pass_fds=descriptors,
                start_new_session=True,
                check=True,
            )
        wait_until(lambda: self.identity is not None, 10.0, lambda: self.failure("did not start"))

    def failure(self, what: str) -> LocalError:
        """Return an error that explains in one line, with a line of the log, what failed."""
        reason = self.find_log_reason()
        next_step = f"look at {self.log}"
        if CAUSES[0] in reason:
            next_step = f"free some space and run the command again, or {next_step}"
        return LocalError(f"{self.name} {what}: {reason}", next_step)

    def find_log_reason(self) -> str:
        """Return the line of the log that most likely explains why the process ended."""
        try:
            lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()[-200:]]
        except FileNotFoundError:
            return "there is no log"
        lines = [_plain_text(line) for line in reversed(lines) if line]
        explaining = [line for cause in CAUSES for line in lines if cause in line]
        explaining += [line for line in lines if line.startswith(REASONS)]
        return (explaining or lines or ["the log is empty"])[0][:300]

    def send_signal(self, number: int) -> None:
        """Send a signal, for example SIGSTOP to freeze it."""
        found = self.identity
        if found is not None:
            found.send(number)

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        end_processes([self], grace=0)


def _inherited_environment() -> dict[str, str]:
    # The cluster's processes must not use the user's HTTP proxy, nor etcd the user's ETCD_ settings.
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("ETCD_")
    }


def _plain_text(line: str) -> str:
    """Return level, message and error of a JSON log line of etcd; return any other line unchanged."""
    try:
        entry = json.loads(line)
        return ": ".join(str(entry[key]) for key in ("level", "msg", "error") if key in entry)
    except (ValueError, TypeError):
        return line


def find_processes(directory: Path) -> list[ManagedProcess]:
    """Return every process that was started with its files in `directory`."""
    return [ManagedProcess(path.stem, directory) for path in sorted(directory.glob("*.json"))]


def end_processes(processes: Iterable[ManagedProcess], *, grace: float = GRACE) -> None:
    """Stop processes: SIGTERM to all, then SIGKILL to those that still run after `grace` seconds."""
    waiting = [found for process in processes if (found := process.identity) is not None]
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 30.0)):
        if not patience:
            continue
        for identity in waiting:
            identity.send(number)
            # A process that a test has stopped with SIGSTOP does not handle SIGTERM.
            identity.send(signal.SIGCONT)
        deadline = time.monotonic() + patience
        while (waiting := [each for each in waiting if each.is_alive()]) and time.monotonic() < deadline:
            time.sleep(0.02)
    if waiting:
        pids = ", ".join(str(each.pid) for each in waiting)
        raise LocalError(
            f"these processes do not end: {pids}", "find out what they wait for, then run the command again"
        )


def wait_until(
    done: Callable[[], bool], seconds: float, late: Callable[[], LocalError], *, pause: float = 0.02
) -> None:
    """Wait until `done` returns true; raise the error of `late` after the timeout."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise late()
        time.sleep(pause)


def wait_while_running(
    parts: Sequence[ManagedProcess], done: Callable[[], bool], seconds: float, late: Callable[[], LocalError]
) -> None:
    """Wait until `done` returns true; raise an error if a process ends or the time is up."""

    def check() -> bool:
        for process in parts:
            if not process.is_alive():
                time.sleep(0.1)  # its last lines may not be in the log yet
                raise process.failure("ended")
        return done()

    wait_until(check, seconds, late, pause=0.1)
