"""The fuzz targets by name, and their corpora."""

from collections.abc import Callable
from pathlib import Path

from fuzz import events, http, nats

CORPUS = Path(__file__).parent / "corpus"

TARGETS: dict[str, Callable[[bytes], None]] = {
    "http-server": http.check_server,
    "http-client": http.check_client,
    "nats-protocol": nats.check_protocol,
    "nats-jetstream": nats.check_jetstream,
    "nats-deliveries": nats.check_deliveries,
    "cloudevents": events.check_cloudevents,
    "stream-messages": events.check_messages,
    "checkup-results": events.check_results,
    "json-nesting": events.check_nesting,
}


def corpus(target: str) -> list[bytes]:
    """Return the inputs that are kept for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]
