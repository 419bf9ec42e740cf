"""How long certificates live, and that every step of a rotation is compatible with the one before."""

import dataclasses
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from quintet.admission.certs import (
    CertificateState,
    KeyPair,
    RotationPolicy,
    new_authority,
    new_leaf,
    rotate,
    service_hosts,
)

START = datetime(2030, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
HOSTS = ("hooks.quintet.svc", "127.0.0.1")
DAY = timedelta(days=1)
POLICY = RotationPolicy()


def signed_by(leaf: KeyPair, authority: KeyPair) -> bool:
    try:
        leaf.x509.verify_directly_issued_by(authority.x509)
    except ValueError:
        return False
    return True


def history(days: int, step: timedelta) -> list[tuple[datetime, CertificateState]]:
    """Every different state on the way, with the time at which it came up."""
    now, state = START, rotate(None, HOSTS, START, POLICY)
    seen = [(now, state)]
    while now < START + days * DAY:
        now += step
        following = rotate(state, HOSTS, now, POLICY)
        if following is not state:
            seen.append((now, following))
        state = following
    return seen


@pytest.fixture(scope="module")
def two_years():
    return history(730, timedelta(hours=3))


def test_ca_is_valid_for_a_year_and_leaf_for_a_week():
    state = rotate(None, HOSTS, START, POLICY)
    authority, leaf = state.authorities[0].x509, state.leaf.x509
    assert timedelta() <= authority.not_valid_after_utc - (START + 365 * DAY) < timedelta(seconds=1)
    assert timedelta() <= leaf.not_valid_after_utc - (START + 7 * DAY) < timedelta(seconds=1)
    assert leaf.not_valid_before_utc < START - timedelta(minutes=4), "clocks differ"


def test_leaf_is_valid_for_our_hosts_and_server_auth_only():
    leaf = rotate(None, HOSTS, START, POLICY).leaf.x509
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hooks.quintet.svc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.ExtendedKeyUsageOID.SERVER_AUTH]
    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_service_host_name_used_by_api_server_comes_first():
    assert service_hosts("ns", "hooks")[0] == "hooks.ns.svc"


def test_leaf_is_renewed_when_a_third_of_its_lifetime_is_left():
    state = rotate(None, HOSTS, START, POLICY)
    assert rotate(state, HOSTS, START + 4.6 * DAY, POLICY) is state
    renewed = rotate(state, HOSTS, START + 4.7 * DAY, POLICY)
    assert renewed.leaf != state.leaf
    assert renewed.authorities == state.authorities


def test_adjacent_rotation_steps_trust_each_other(two_years):
    """Whoever is one step behind, server or API server, they still get along."""
    for (_, before), (now, after) in pairwise(two_years):
        assert any(signed_by(after.leaf, authority) for authority in before.authorities), (
            f"{now}: the new leaf is not trusted yet"
        )
        assert any(signed_by(before.leaf, authority) for authority in after.authorities), (
            f"{now}: the old leaf is not trusted any more"
        )


def test_every_certificate_is_replaced_before_expiry(two_years):
    for (_, before), (now, _) in pairwise(two_years):
        assert before.leaf.ends - now > 2 * DAY
        assert all(authority.ends - now > 100 * DAY for authority in before.authorities)
    assert all(state.leaf.ends <= state.authorities[0].ends for _, state in two_years)


def test_new_ca_is_trusted_an_hour_before_it_signs(two_years):
    trusted_since: dict[bytes, datetime] = {}
    for now, state in two_years:
        for authority in state.authorities:
            trusted_since.setdefault(authority.certificate, now)
        signer = next(each for each in state.authorities if signed_by(state.leaf, each))
        if signer.certificate != two_years[0][1].authorities[0].certificate:
            assert now - trusted_since[signer.certificate] >= timedelta(minutes=59)


def test_old_ca_is_trusted_until_its_last_leaf_expires(two_years):
    last_leaf: dict[bytes, datetime] = {}
    for now, state in two_years:
        trusted = {authority.certificate for authority in state.authorities}
        for gone in last_leaf.keys() - trusted:
            assert last_leaf.pop(gone) < now
        signer = next(each for each in state.authorities if signed_by(state.leaf, each))
        last_leaf[signer.certificate] = state.leaf.ends
    made = {authority.certificate for _, state in two_years for authority in state.authorities}
    assert len(made) == 3


def test_changed_hosts_cause_new_leaf():
    state = rotate(None, HOSTS, START, POLICY)
    changed = rotate(state, ("other.quintet.svc",), START, POLICY)
    assert changed.leaf != state.leaf
    assert changed.authorities == state.authorities


def test_expired_state_is_replaced_completely():
    state = rotate(None, HOSTS, START, POLICY)
    now = START + 400 * DAY
    fresh = rotate(state, HOSTS, now, POLICY)
    assert len(fresh.authorities) == 1
    assert fresh.authorities != state.authorities
    assert signed_by(fresh.leaf, fresh.authorities[0]), "nobody trusts the old one: the new one signs at once"
    assert fresh.leaf.ends > now


@given(st.floats(0, 800), st.floats(0, 40))
def test_leaf_is_valid_and_trusted_at_any_time(first, second):
    state = rotate(None, HOSTS, START, POLICY)
    for days in (first, first + second):
        now = START + days * DAY
        state = rotate(state, HOSTS, now, POLICY)
        assert rotate(state, HOSTS, now, POLICY) is state, "once is enough"
        assert state.leaf.x509.not_valid_before_utc < now < state.leaf.ends
        assert any(
            signed_by(state.leaf, authority) and authority.ends > now for authority in state.authorities
        )


def test_secret_stores_whole_state():
    state = rotate(None, HOSTS, START, POLICY)
    rotating = dataclasses.replace(
        state, authorities=(new_authority(START + DAY, POLICY), *state.authorities)
    )
    for each in (state, rotating):
        assert CertificateState.from_data(each.as_data()) == each
    assert rotating.as_data()["ca.crt"].count(b"BEGIN CERTIFICATE") == 2


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("damage", [None, b"", b"garbage", b"\xff"])
def test_damaged_secret_is_no_state(name, damage):
    data = rotate(None, HOSTS, START, POLICY).as_data()
    if damage is None:
        del data[name]
    else:
        data[name] = damage
    assert CertificateState.from_data(data) is None


def test_key_of_other_certificate_is_no_state():
    data = rotate(None, HOSTS, START, POLICY).as_data()
    data["tls.key"] = rotate(None, HOSTS, START, POLICY).leaf.key
    assert CertificateState.from_data(data) is None


def test_leaf_never_outlives_its_ca():
    authority = new_authority(START, POLICY)
    late = authority.ends - DAY
    assert new_leaf(authority, HOSTS, late, POLICY).ends == authority.ends


def test_impossible_policy_is_rejected():
    with pytest.raises(ValueError, match="outlive"):
        RotationPolicy(authority=timedelta(days=9), leaf=timedelta(days=7))
