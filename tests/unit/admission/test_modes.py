"""Each way to run the webhooks is one call."""

from pathlib import Path

from kit.clock import VirtualClock
from quintet.admission.modes import by_files, by_service, by_url
from quintet.admission.registration import INJECT_CA_FROM, configurations
from quintet.apis.meta import ObjectKey
from quintet.kube.client import Client
from unit.admission.sample import ADMISSION

CLIENT = Client(None)
SERVICE = ObjectKey("quintet-system", "quintet-webhooks")


def registered(hooks):
    endpoint = hooks._registration._endpoint
    return endpoint, [body for _, body in configurations(endpoint, (ADMISSION,), b"PEM")]


async def test_service_mode_registers_service_and_ca_bundle():
    hooks = by_service((ADMISSION,), CLIENT, CLIENT, VirtualClock(), service=SERVICE)
    for body in registered(hooks)[1]:
        assert body["metadata"]["name"] == "quintet"
        assert body["webhooks"][0]["clientConfig"]["service"]["name"] == "quintet-webhooks"
        assert "caBundle" in body["webhooks"][0]["clientConfig"]


async def test_url_mode_registers_process_under_own_name():
    for host, want in (("192.0.2.7", "https://192.0.2.7:9443/"), ("::1", "https://[::1]:9443/")):
        hooks = by_url((ADMISSION,), CLIENT, VirtualClock(), host=host)
        for body in registered(hooks)[1]:
            assert body["metadata"]["name"] == "quintet-local"
            assert body["webhooks"][0]["clientConfig"]["url"].startswith(want)


async def test_cert_manager_mode_registers_webhooks_without_ca_bundle():
    hooks = by_files(
        (ADMISSION,), CLIENT, VirtualClock(), folder=Path("certs"), service=SERVICE, certificate="ns/serving"
    )
    for body in registered(hooks)[1]:
        assert body["metadata"]["annotations"][INJECT_CA_FROM] == "ns/serving"
        assert "caBundle" not in body["webhooks"][0]["clientConfig"]


async def test_olm_mode_registers_nothing():
    assert by_files((ADMISSION,), CLIENT, VirtualClock(), folder=Path("certificates"))._registration is None
