import base64
import datetime
import json
import stat

import pytest
from cryptography import x509

from quintet.local.controlplane.certificates import Authority, write_kubeconfig


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.create(tmp_path_factory.mktemp("pki"))


def read(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_server_certificate_has_hosts_and_signature_of_the_authority(authority):
    certificate, _ = authority.issue("server", "kube-apiserver", hosts=["localhost", "127.0.0.1"])
    found = read(certificate)
    found.verify_directly_issued_by(authority.certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_client_certificate_has_user_and_groups(authority):
    certificate, _ = authority.issue("client", "alice", ("developers", "testers"))
    assert read(certificate).subject.rfc4514_string() == "CN=alice,O=testers,O=developers"


def test_certificate_with_past_end_date_can_be_issued(authority):
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificate, _ = authority.issue("expired", "alice", not_after=yesterday)
    found = read(certificate)
    assert found.not_valid_before_utc < found.not_valid_after_utc < datetime.datetime.now(datetime.UTC)


def test_loaded_authority_can_issue_certificates(authority):
    certificate, _ = Authority.load(authority.directory).issue("later", "bob")
    read(certificate).verify_directly_issued_by(authority.certificate)


def test_private_keys_are_readable_by_owner_only(authority):
    authority.issue("secret", "carol")
    for path in authority.directory.glob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_kubeconfig_embeds_its_certificates(authority, tmp_path):
    certificate, key = authority.issue("inline", "dave")
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:1", authority.directory / "ca.crt", certificate, key)
    config = json.loads(path.read_text())
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == key.read_bytes()
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert str(authority.directory) not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
