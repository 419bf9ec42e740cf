"""Runs fuzz campaigns that are guided by coverage, or one target on the inputs in files.

python -m fuzz campaign [--seconds 60] [TARGET…]     all targets by default, one after the other
python -m fuzz TARGET FILE…                          reproduces a finding
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

_TOP = Path(__file__).resolve().parents[2]
_FOUND = _TOP / "build" / "fuzz"
_INSTRUMENTED = ["quintet.web", "quintet.nats", "quintet.eventing", "quintet.apis"]
_MOST_BYTES = 4096


def main(arguments: list[str]) -> int:
    """Run a command, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("command", help="campaign, or the target for the files")
    parser.add_argument("rest", nargs="*", metavar="TARGET|FILE")
    parser.add_argument("--seconds", type=int, default=60, help="per target; default: 60")
    options = parser.parse_intermixed_args(arguments)
    if options.command == "campaign":
        return _run_campaign(options.rest, options.seconds)
    if options.command == "explore":
        _explore(options.rest[0], options.seconds)  # does not return
    from fuzz.targets import TARGETS

    for path in options.rest:
        TARGETS[options.command](Path(path).read_bytes())
        print(f"{path}: no finding")
    return 0


def _run_campaign(names: list[str], seconds: int) -> int:
    """Explore each target in a process of its own, as libFuzzer ends it; print a table."""
    from fuzz.targets import TARGETS

    if unknown := set(names) - set(TARGETS):
        print(f"unknown target {', '.join(sorted(unknown))}; the targets are {', '.join(TARGETS)}")
        return 2
    total = failures = 0
    print(f"{'target':<18}{'executions':>12}{'per second':>12}{'inputs':>8}  result")
    for name in names or TARGETS:
        command = [sys.executable, "-m", "fuzz", "explore", name, f"--seconds={seconds}"]
        done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
        output = done.stdout + done.stderr
        found = re.search(r"number_of_executed_units:\s*(\d+)", output)
        executions = int(found[1]) if found else 0
        kept = len(list((_FOUND / name / "corpus").iterdir()))
        result = "no finding" if done.returncode == 0 else f"FINDING in {_FOUND / name}"
        print(
            f"{name:<18}{executions:>12,}{executions // max(seconds, 1):>12,}{kept:>8}  {result}", flush=True
        )
        total += executions
        if done.returncode:
            failures += 1
            print(output[output.find(" === Uncaught") :][:3000])
    print(f"{'total':<18}{total:>12,}{'':>12}{'':>8}  {failures} targets with findings")
    return 1 if failures else 0


def _explore(name: str, seconds: int) -> None:
    """Explore one target until the time is over or there is a finding; ends the process."""
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        from fuzz.targets import CORPUS, TARGETS
    found = _FOUND / name / "corpus"
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-max_len={_MOST_BYTES}", "-print_final_stats=1", "-timeout=5"]
    options += [f"-artifact_prefix={_FOUND / name}/", "-rss_limit_mb=2048", "-verbosity=0"]
    dictionary = Path(__file__).parent / "dictionaries" / name
    if dictionary.exists():
        options.append(f"-dict={dictionary}")
    # The first directory gets the inputs that reach new code.
    atheris.Setup([sys.argv[0], *options, str(found), str(CORPUS / name)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
