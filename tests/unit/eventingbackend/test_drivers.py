"""Every type of the catalog has a driver, and every error a meaning."""

import pytest

from quintet.apis.eventingbackend import CATALOG
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.drivers import DRIVERS
from quintet.controllers.eventingbackend.drivers.addresses import resolve_addresses
from quintet.controllers.eventingbackend.drivers.beb import BebDriver
from quintet.controllers.eventingbackend.drivers.nats import result_of_error
from quintet.controllers.eventingbackend.migration import StreamLocation, location_of
from quintet.eventing.settings import DispatcherSettings, NatsSettings, PublisherSettings, encode_settings
from quintet.nats import errors
from unit.eventingbackend.samples import a_backend, a_config


def test_every_type_has_a_driver():
    assert {driver.backend.name for driver in DRIVERS} == set(CATALOG)
    assert len(DRIVERS) == len(CATALOG)


def _all(kind: type[errors.NatsError]) -> list[type[errors.NatsError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _all(below))]


@pytest.mark.parametrize("kind", _all(errors.NatsError), ids=lambda kind: kind.__name__)
def test_every_nats_error_has_a_reason_without_server_text(kind):
    error = kind.__new__(kind, "banner of a stranger")
    found = result_of_error(error, "nats.example:4222")
    assert not found.ready
    assert found.message.startswith("nats.example:4222: ")
    assert "banner" not in found.message


def test_different_errors_have_different_reasons():
    kinds = (
        errors.Unresolved,
        errors.ServerUnreachable,
        errors.CertificateExpired,
        errors.TlsFailed,
        errors.LoginRefused,
        errors.ProtocolError,
        errors.JetStreamUnavailable,
    )
    reasons = {result_of_error(kind("x"), "p").reason for kind in kinds}
    assert len(reasons) == len(kinds)


def test_event_mesh_needs_no_dispatcher():
    driver = BebDriver.__new__(BebDriver)  # what it wants needs none of its tools
    plane = driver.data_plane(a_backend(type="beb"), a_config("beb", secretRef="mesh", qos="AT_MOST_ONCE"))
    assert plane.dispatcher is None
    assert (plane.secret, plane.publisher.beb.qos) == ("mesh", "AT_MOST_ONCE")


async def test_unresolvable_name_gives_a_failed_result():
    found = await resolve_addresses("name.invalid", 4222, None)
    assert isinstance(found, ProbeResult)
    assert found.reason is Reason.UNRESOLVED


def test_location_is_read_from_dispatcher_settings():
    nats = NatsSettings(url="nats://h:1", stream="s", subject_prefix="p")
    told = DispatcherSettings(
        namespace="n",
        backend="b",
        event_type_prefix="e",
        nats=nats,
        max_in_flight=1,
        deliver_policy="new",
        dead_letter_subject="d",
    )
    found = location_of(encode_settings(told), "login", own_url="nats://h:1")
    assert found == StreamLocation("nats://h:1", "s", ("p", "e"), "login", own=True)
    assert not found.same_stream(StreamLocation("nats://h:1", "t"))
    assert found.same_stream(StreamLocation("nats://h:1", "s"))
    assert not found.same(StreamLocation("nats://h:1", "s"))
    assert found.same(StreamLocation("nats://h:1", "s", ("p", "e")))
    publishes = PublisherSettings(namespace="n", backend="b", event_type_prefix="e", nats=nats)
    found_too = location_of(encode_settings(publishes), "login", own_url="nats://h:1", kind=PublisherSettings)
    assert found_too == found
    beb = PublisherSettings(namespace="n", backend="b", event_type_prefix="e")
    assert location_of(encode_settings(beb), "", own_url="", kind=PublisherSettings) is None
    assert location_of("", "", own_url="") is None
    assert location_of("{}", "", own_url="") is None
