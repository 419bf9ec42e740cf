"""Echoes a message. For Kiagnose v0.2.1 and later, with parameters in the ConfigMap.

- spec.param.message: the message
- spec.param.delay: seconds to wait first (none)
- spec.param.failure: a reason to fail with
"""

import time

import kiagnose


def check(run: kiagnose.Run) -> None:
    """Wait, fail or echo the message, as the parameters require."""
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
