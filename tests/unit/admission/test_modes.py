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


async def test_in_the_cluster_the_service_is_asked():
    hooks = by_service((ADMISSION,), CLIENT, CLIENT, VirtualClock(), service=SERVICE)
    for body in registered(hooks)[1]:
        assert body["metadata"]["name"] == "quintet"
        assert body["webhooks"][0]["clientConfig"]["service"]["name"] == "quintet-webhooks"
        assert "caBundle" in body["webhooks"][0]["clientConfig"]


async def test_outside_the_process_itself_is_asked_under_a_name_of_its_own():
    for host, want in (("192.0.2.7", "https://192.0.2.7:9443/"), ("::1", "https://[::1]:9443/")):
        hooks = by_url((ADMISSION,), CLIENT, VirtualClock(), host=host)
        for body in registered(hooks)[1]:
            assert body["metadata"]["name"] == "quintet-local"
            assert body["webhooks"][0]["clientConfig"]["url"].startswith(want)


async def test_with_cert_manager_we_register_and_it_injects():
    hooks = by_files(
        (ADMISSION,), CLIENT, VirtualClock(), folder=Path("certs"), service=SERVICE, certificate="ns/serving"
    )
    for body in registered(hooks)[1]:
        assert body["metadata"]["annotations"][INJECT_CA_FROM] == "ns/serving"
        assert "caBundle" not in body["webhooks"][0]["clientConfig"]


async def test_with_olm_we_register_nothing():
    assert by_files((ADMISSION,), CLIENT, VirtualClock(), folder=Path("certificates"))._registration is None
