"""The TLS context of a server, whose certificate can be replaced while it serves."""

import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator


def server_context() -> ssl.SSLContext:
    """Return a context without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use a certificate and its key (PEM) for new TLS handshakes; open connections stay."""
    with _as_file(certificate + b"\n" + key) as path:
        # Loaded into a scratch context first: a mismatched pair would break the live context.
        server_context().load_cert_chain(path)
        context.load_cert_chain(path)


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path that OpenSSL can read the content from; on Linux the key is never written to disk."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
