"""Says back what it is told. Written for Kiagnose v0.2.1 and later: parameters are in the ConfigMap.

- spec.param.message: what to say back
- spec.param.delay: seconds to wait before that (none)
- spec.param.failure: a reason to fail with instead
"""

import time

import kiagnose


def check(run: kiagnose.Run) -> None:
    """Wait, fail or answer, as the parameters say."""
    message = run.param("message")
    delay = run.number("delay", 0)
    if delay:
        kiagnose.say(f"waiting {delay:g} seconds before saying '{message}'")
        run.result("waiting", delay)
        run.publish()
        time.sleep(delay)
    if run.param("failure", ""):
        raise kiagnose.Failure(run.param("failure"))
    run.result("echo", message)


if __name__ == "__main__":
    kiagnose.main(check)
