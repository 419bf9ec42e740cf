"""Errors of the cluster in a user's words: what happened, in one line, and what to do next.

Called by `main` for whatever a command raises, and by `doctor` for each check.
"""

from __future__ import annotations

from quintet.kube import errors

DOCTOR = "run `quintet doctor` to see what is wrong"
RETRY = "run the command again in a moment"


def explain(error: errors.KubeError) -> tuple[str, str]:
    """Return the message and the next step, for every error there is."""
    message, next_step = _explain(error)
    return " ".join(message.split()), next_step


def _explain(error: errors.KubeError) -> tuple[str, str]:
    match error:
        case errors.ConfigError():
            return error.message, error.next_step
        case errors.UntrustedServer():
            return f"the server is not the one that the kubeconfig trusts ({error})", (
                "check the address and certificate-authority of the cluster, or fetch its kubeconfig anew"
            )
        case errors.DeadlineExceeded():
            return (
                f"the server is too slow or away ({error})",
                "check the network between here and the server",
            )
        case errors.Unreachable():
            return f"the server cannot be reached ({error})", (
                "check that it runs and that the kubeconfig has its address; `quintet up` starts a local one"
            )
        case errors.UnexpectedResponse():
            return f"this does not look like a Kubernetes API server ({error})", (
                "check the server's address in the kubeconfig, and any proxy on the way"
            )
        case errors.ApiError():
            return _explain_answer(error)
    return str(error), DOCTOR


def _explain_answer(error: errors.ApiError) -> tuple[str, str]:
    said = error.message or str(error)
    match error:
        case errors.Unauthorized():
            reason = error.expiry or "it does not know these credentials"
            return f"the server refuses us: {reason}", "fetch new credentials for this cluster"
        case errors.Forbidden(namespace_terminating=True):
            return f"the namespace is being deleted ({said})", "wait until it is gone, or use another one"
        case errors.Forbidden():
            return f"no permission: {said}", "ask an administrator of the cluster for a role that allows it"
        case errors.NotFound():
            return said, "check the name and namespace; `quintet doctor` tells whether Quintet is installed"
        case errors.AlreadyExists():
            return said, "choose another name, or delete the one that is there"
        case errors.Conflict() | errors.Gone():
            return f"somebody changed it at the same time ({said})", RETRY
        case errors.Invalid() | errors.BadRequest() | errors.TooLarge():
            return said, "change what the message names and run the command again"
        case errors.TooManyRequests():
            return f"the server asks us to wait ({said})", RETRY
        case errors.ServerFault():
            return f"the server is in trouble ({said})", f"{RETRY}, or look at the logs of kube-apiserver"
    return f"the server gave an answer that fits no request of ours ({said})", DOCTOR
