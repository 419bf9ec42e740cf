"""Describes errors of the API server for users: what happened, and the next step."""

from __future__ import annotations

from quintet.kube import errors

DOCTOR = "run `quintet doctor` to find the cause"
RETRY = "run the command again in a moment"


def describe_error(error: errors.KubeError) -> tuple[str, str]:
    """Return a one-line message and the next step."""
    message, next_step = _describe(error)
    return " ".join(message.split()), next_step


def _describe(error: errors.KubeError) -> tuple[str, str]:
    match error:
        case errors.ConfigError():
            return error.message, error.next_step
        case errors.UntrustedServer():
            return f"the kubeconfig does not trust the certificate of the server ({error})", (
                "check the address and certificate-authority of the cluster, or get a new kubeconfig"
            )
        case errors.DeadlineExceeded():
            return (
                f"the server did not respond in time ({error})",
                "check the network between here and the server",
            )
        case errors.Unreachable():
            return f"the server cannot be reached ({error})", (
                "check that it runs and check its address in the kubeconfig; `quintet up` starts a local one"
            )
        case errors.UnexpectedResponse():
            return f"this does not look like a Kubernetes API server ({error})", (
                "check the server's address in the kubeconfig, and proxies in between"
            )
        case errors.ApiError():
            return _describe_api_error(error)
    return str(error), DOCTOR


def _describe_api_error(error: errors.ApiError) -> tuple[str, str]:
    text = error.message or str(error)
    match error:
        case errors.Unauthorized():
            reason = error.expiry or "unknown credentials"
            return f"the server rejected the credentials: {reason}", "get new credentials for this cluster"
        case errors.Forbidden(namespace_terminating=True):
            return (
                f"the namespace is being deleted ({text})",
                "wait until it is deleted, or use another namespace",
            )
        case errors.Forbidden():
            return f"no permission: {text}", "ask a cluster administrator for a role that allows it"
        case errors.NotFound():
            return text, "check the name and namespace, and run `quintet doctor` to check the installation"
        case errors.AlreadyExists():
            return text, "choose another name, or delete the existing object"
        case errors.Conflict() | errors.Gone():
            return f"the object was changed at the same time ({text})", RETRY
        case errors.Invalid() | errors.BadRequest() | errors.TooLarge():
            return text, "fix what the message names and run the command again"
        case errors.TooManyRequests():
            return f"the server limits requests ({text})", RETRY
        case errors.ServerFault():
            return f"the server failed ({text})", f"{RETRY}, or check the logs of kube-apiserver"
    return f"unexpected response of the server ({text})", DOCTOR
