"""The connection target of an API server, whose certificates may be replaced while the process runs."""

import logging
from dataclasses import replace
from math import inf
from urllib.parse import urlsplit

from quintet.clock import Clock
from quintet.kube.config import ClusterConfig
from quintet.kube.errors import ConfigError
from quintet.web.connection import ConnectionTarget

log = logging.getLogger(__name__)

# Certificates are replaced long before they expire, so one minute is early enough.
_REREAD_SECONDS = 60.0


class TargetSource:
    """Returns the target for a new connection, with the current CA and client certificate.

    They come from files, which are read again once a minute, after an error of TLS and after a 401, or from a
    credential plugin.
    """

    def __init__(self, config: ClusterConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._read_at = clock.monotonic()
        self._used = config
        self._target = self._build(config)

    @property
    def config(self) -> ClusterConfig:
        """The configuration with the current certificates."""
        return self._used

    def current(self) -> ConnectionTarget:
        """Return the target for a new connection."""
        if self._clock.monotonic() - self._read_at >= _REREAD_SECONDS:
            self.renew()
        else:
            self._use(self._used)
        return self._target

    def expect_change(self) -> None:
        """Read the files again before the next connection."""
        self._read_at = -inf

    def renew(self) -> bool:
        """Read the files again; return whether the CA or the client certificate has changed."""
        self._read_at = self._clock.monotonic()
        fresh = self._config
        if self._config.reload is not None:
            try:
                fresh = self._config.reload()
            except ConfigError as error:
                # A file may be half written, or gone for a moment.
                log.info("Cannot read the configuration again", extra={"error": str(error)})
                return False
        if fresh.server != self._config.server:
            return False
        authority, certificate, key = fresh.certificates
        return self._use(replace(self._used, ca_data=authority, client_cert=certificate, client_key=key))

    def _use(self, config: ClusterConfig) -> bool:
        """Use the certificates of a configuration, or of the plugin; return whether they have changed."""
        if (issued := config.credentials.certificate) is not None:
            config = replace(config, client_cert=issued[0], client_key=issued[1])
        if config.certificates == self._used.certificates:
            return False
        try:
            self._target = self._build(config)
        except ConfigError as error:
            # The certificate may have been replaced, and its key not yet.
            log.warning("The new certificates cannot be used", extra={"error": str(error)})
            return False
        self._used = config
        log.info("Using new certificates", extra={"source": config.source})
        return True

    @staticmethod
    def _build(config: ClusterConfig) -> ConnectionTarget:
        tls = config.ssl_context() if urlsplit(config.server).scheme == "https" else None
        return ConnectionTarget(config.server, tls, config.tls_server_name, config.proxy_url)
