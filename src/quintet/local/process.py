"""Starts, finds again and ends the processes of a cluster.

Called by `controlplane`, `node` and `cluster`. A process is known by its pid *and* its
start time, both noted by the process itself before it becomes the program: so neither a
crash of ours loses one, nor is a stranger ended that was given the same pid later.
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

# The outer shell ends at once, so that the program belongs to no process of ours and is reaped by init.
DETACH = 'sh -c "$0" "$@" &'
# $0 is the record, $1 a file that takes the pid into the cluster's cgroup (or /dev/null); exec keeps the pid.
RECORD_AND_BECOME = """
boot=
if [ -r /proc/$$/stat ]; then read -r line </proc/$$/stat; read -r boot </proc/sys/kernel/random/boot_id
else line="$$ $(ps -o lstart= -p $$)"; fi
printf '%s\\n%s\\n' "$line" "$boot" >"$0" && echo $$ >"$1" && shift && exec "$@"
"""
BOOT = Path("/proc/sys/kernel/random/boot_id")
GRACE = 5.0
# What a log says about an end, the most telling first.
CAUSES = ("no space left on device", "address already in use", "too many open files", "permission denied")
REASONS = ("F1", "E1", "error", "Error", "panic", "failed", "sh: ")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Which process a pid meant when it was noted."""

    pid: int
    started: str
    # The start time counts from the start of the machine, so that must be told apart too.
    boot: str = ""

    @classmethod
    def parse(cls, record: str) -> ProcessIdentity | None:
        """Read a line of /proc/PID/stat and one of the boot; without /proc, `PID START` as told by `ps`."""
        line, _, boot = record.partition("\n")
        pid, _, rest = line.strip().partition(" ")
        if not pid.isdigit() or int(pid) <= 1 or not rest:
            return None
        if rest.startswith("("):
            # The program's name may hold spaces and brackets: fields are counted after the last one.
            fields = rest.rpartition(")")[2].split()
            return (
                cls(int(pid), fields[19], boot.strip()) if len(fields) > 19 and boot.endswith("\n") else None
            )
        return cls(int(pid), " ".join(rest.split()))

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Who has this pid now; None if nobody, or only a zombie that waits to be reaped."""
        record = _look(pid)
        found = cls.parse(record)
        return None if found is None or _is_dead(record) else found

    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: int) -> None:
        """Send a signal to that very process; nothing happens if it is gone."""
        teardown.signal_process(self.pid, number, self.is_alive)


def _is_dead(record: str) -> bool:
    """Whether nothing of a process runs: the first thread may be a zombie while others hold its ports."""
    fields = record.rpartition(")")[2].split()
    state, threads = (fields[0], fields[17]) if len(fields) > 17 else ("", "1")
    return state in ("Z", "X") and int(threads) <= 1


def _look(pid: int) -> str:
    if platform.system() == "Linux":
        try:
            return Path(f"/proc/{pid}/stat").read_text() + BOOT.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return ""
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return f"{pid} {answer.stdout}" if answer.stdout.strip() else ""


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """One program of a cluster: `directory` holds its record NAME.pid, command NAME.json and log NAME.log."""

    name: str
    directory: Path

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.directory / f"{self.name}.log"

    @property
    def identity(self) -> ProcessIdentity | None:
        """Who was started last under this name."""
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
        """Whether it runs."""
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
        """Start the program in a session of its own and wait until its record is there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        enter = str(cgroup / "cgroup.procs") if cgroup else os.devnull
        specification = {"argv": list(argv), "environment": environment or {}, "cgroup": enter}
        write_file(self.directory / f"{self.name}.json", json.dumps(specification))
        self._launch(list(argv), environment or {}, enter, descriptors)

    def start_again(self) -> None:
        """Start the same command once more."""
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
                env=_inherited() | environment,
                pass_fds=descriptors,
                start_new_session=True,
                check=True,
            )
        wait_until(lambda: self.identity is not None, 10.0, lambda: self.failure("did not start"))

    def failure(self, what: str) -> LocalError:
        """Make the error that says in one line why this program is not well."""
        reason = self.find_log_reason()
        next_step = f"look at {self.log}"
        if CAUSES[0] in reason:
            next_step = f"free some space and run the command again, or {next_step}"
        return LocalError(f"{self.name} {what}: {reason}", next_step)

    def find_log_reason(self) -> str:
        """Return the line of the log that most likely explains an end."""
        try:
            lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()[-200:]]
        except FileNotFoundError:
            return "it left no log"
        lines = [_readable(line) for line in reversed(lines) if line]
        telling = [line for cause in CAUSES for line in lines if cause in line]
        telling += [line for line in lines if line.startswith(REASONS)]
        return (telling or lines or ["its log is empty"])[0][:300]

    def send_signal(self, number: int) -> None:
        """Send a signal, for example SIGSTOP to freeze it."""
        found = self.identity
        if found is not None:
            found.send(number)

    def kill(self) -> None:
        """End it at once and wait until it is gone."""
        end_processes([self], grace=0)


def _inherited() -> dict[str, str]:
    # A proxy of the user's must not stand between the cluster's parts, and etcd would obey its variables.
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("ETCD_")
    }


def _readable(line: str) -> str:
    """Return the words of a line that etcd wrote as JSON; any other line as it is."""
    try:
        entry = json.loads(line)
        return ": ".join(str(entry[key]) for key in ("level", "msg", "error") if key in entry)
    except (ValueError, TypeError):
        return line


def find_processes(directory: Path) -> list[ManagedProcess]:
    """Return every program that was started with its record in `directory`."""
    return [ManagedProcess(path.stem, directory) for path in sorted(directory.glob("*.json"))]


def end_processes(processes: Iterable[ManagedProcess], *, grace: float = GRACE) -> None:
    """End processes together: SIGTERM, then SIGKILL for those that outstay the grace."""
    waiting = [found for process in processes if (found := process.identity) is not None]
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 30.0)):
        if not patience:
            continue
        for identity in waiting:
            identity.send(number)
            # One that a test has frozen would not hear the signal.
            identity.send(signal.SIGCONT)
        deadline = time.monotonic() + patience
        while (waiting := [each for each in waiting if each.is_alive()]) and time.monotonic() < deadline:
            time.sleep(0.02)
    if waiting:
        pids = ", ".join(str(each.pid) for each in waiting)
        raise LocalError(
            f"these processes do not end: {pids}", "look at what they wait for, then run it again"
        )


def wait_until(
    done: Callable[[], bool], seconds: float, late: Callable[[], LocalError], *, pause: float = 0.02
) -> None:
    """Wait for a condition; raise what `late` makes when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise late()
        time.sleep(pause)
