"""Reads a kubeconfig without `quintet.kube`, which is under test."""

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml


@dataclass(frozen=True)
class Access:
    """The current context of a kubeconfig."""

    server: str
    authority: bytes | None
    certificate: bytes | None
    key: bytes | None
    token: str | None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a kubeconfig; relative file names are resolved against its folder."""
        config = yaml.safe_load(path.read_text())
        context = _find_entry(config["contexts"], config["current-context"])["context"]
        cluster = _find_entry(config["clusters"], context["cluster"])["cluster"]
        user = _find_entry(config["users"], context["user"])["user"]
        return cls(
            server=cluster["server"].rstrip("/"),
            authority=_read_pem(cluster, "certificate-authority", path),
            certificate=_read_pem(user, "client-certificate", path),
            key=_read_pem(user, "client-key", path),
            token=user.get("token"),
        )

    def session(self, *, identified: bool = True, **options: Any) -> aiohttp.ClientSession:
        """Return an HTTP session as the kubeconfig's user, or without credentials."""
        tls = ssl.create_default_context(cadata=self.authority.decode() if self.authority else None)
        if identified and self.certificate and self.key:
            _load_certificate(tls, self.certificate, self.key)
        headers = {"Authorization": f"Bearer {self.token}"} if identified and self.token else {}
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        return aiohttp.ClientSession(connector=connector, headers=headers, **options)


def _load_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # `ssl` reads certificates from files only, so a temporary file is needed.
    with tempfile.NamedTemporaryFile() as both:
        both.write(certificate + b"\n" + key)
        both.flush()
        tls.load_cert_chain(both.name)


def _read_pem(entry: dict[str, Any], key: str, path: Path) -> bytes | None:
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"])
    return (path.parent / entry[key]).read_bytes() if key in entry else None


def _find_entry(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
