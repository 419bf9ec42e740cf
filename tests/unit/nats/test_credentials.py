"""The keys of a Secret become a login, or an error that names the key and never the value."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from kit.nats.nkeys import Key, Operator
from quintet.nats.credentials import from_files, from_secret
from quintet.nats.errors import CredentialsError


def mistyped(seed: str) -> bytes:
    """One letter in the middle is another."""
    return f"{seed[:20]}{'B' if seed[20] == 'A' else 'A'}{seed[21:]}".encode()


PEM = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("secret", "want_login"),
    [
        pytest.param(
            {"username": b"ann", "password": b"pw"}, {"user": "ann", "pass": "pw"}, id="user and password"
        ),
        pytest.param(
            {"username": b"ann\n", "password": b"pw\r\n"},
            {"user": "ann", "pass": "pw"},
            id="trailing line break",
        ),
        pytest.param({"token": b"t"}, {"auth_token": "t"}, id="token"),
        pytest.param({"ca.crt": PEM}, {}, id="TLS only"),
        pytest.param({"token": b"t", "other": b"\xff"}, {"auth_token": "t"}, id="unknown key"),
    ],
)
def test_secret_gives_login_fields(secret, want_login):
    assert from_secret(secret).login("nonce") == want_login


def test_nkey_signs_the_nonce_of_the_server():
    key = Key("U")
    login = from_secret({"nkey": key.seed.encode()}).login("a nonce")

    assert login["nkey"] == key.public
    raw = base64.b32decode(key.public + "=" * (-len(key.public) % 8))[1:33]
    Ed25519PublicKey.from_public_bytes(raw).verify(base64.urlsafe_b64decode(login["sig"] + "=="), b"a nonce")


def test_creds_file_gives_jwt_and_signs_with_its_seed():
    creds = Operator().creds()
    login = from_secret({"creds": creds}).login("a nonce")

    assert login["jwt"].encode() in creds
    assert set(login) == {"jwt", "sig"}


@pytest.mark.parametrize(
    ("secret", "want_key"),
    [
        pytest.param({}, "username", id="empty Secret"),
        pytest.param({"other": b"x"}, "username", id="only unknown keys"),
        pytest.param({"username": b"a"}, "password", id="username without password"),
        pytest.param({"password": b"a"}, "username", id="password without username"),
        pytest.param({"username": b"a", "password": b"b", "token": b"c"}, "token", id="two login methods"),
        pytest.param({"token": b"\xff\xfe"}, "token", id="invalid UTF-8"),
        pytest.param({"token": b"\n"}, "token", id="empty value"),
        pytest.param({"nkey": b"SUnonsense"}, "nkey", id="invalid seed"),
        pytest.param({"nkey": b"hello!"}, "nkey", id="invalid base32"),
        pytest.param({"nkey": Key("A").seed.encode()}, "nkey", id="seed of an account"),
        pytest.param({"nkey": Key("U").public.encode()}, "nkey", id="public key"),
        pytest.param({"nkey": mistyped(Key("U").seed)}, "nkey", id="wrong checksum"),
        pytest.param({"creds": b"nothing in it"}, "creds", id="creds without blocks"),
        pytest.param({"ca.crt": b"nonsense"}, "ca.crt", id="invalid certificate"),
        pytest.param({"tls.crt": PEM}, "tls.key", id="certificate without key"),
        pytest.param({"tls.key": PEM}, "tls.crt", id="key without certificate"),
    ],
)
def test_invalid_secret_raises_error_with_the_key(secret, want_key):
    with pytest.raises(CredentialsError) as caught:
        from_secret(secret)

    assert caught.value.key == want_key


def test_credentials_never_show_secret_values():
    credentials = from_secret({"username": b"ann", "password": b"hunter2"})
    assert "hunter2" not in repr(credentials)
    with pytest.raises(CredentialsError) as caught:
        from_secret({"nkey": b"SUSECRETVALUE"})
    assert "SECRETVALUE" not in str(caught.value)


def test_mounted_files_give_the_same_credentials_as_the_secret(tmp_path):
    (tmp_path / "username").write_text("ann")
    (tmp_path / "password").write_text("pw")
    (tmp_path / "..data").mkdir()

    assert from_files(tmp_path) == from_secret({"username": b"ann", "password": b"pw"})


def test_folder_without_keys_raises_error(tmp_path):
    with pytest.raises(CredentialsError, match=r"none of the keys username, password, token"):
        from_files(tmp_path)
