"""The streams of a backend: how they must be, how they differ, and whose they are."""

import msgspec
import pytest
from msgspec import UNSET

from quintet.apis.meta import ObjectKey
from quintet.eventing import streams
from quintet.nats.config import StreamInfo, StreamState
from unit.eventingbackend.samples import a_backend, a_config

BUS = a_backend()
WANTED = streams.stream_config(BUS, a_config())


def test_default_stream_keeps_events_until_delivered_and_refuses_overflow():
    assert (WANTED.name, WANTED.subjects) == ("sap", ("kyma.>",))
    assert (WANTED.retention, WANTED.storage, WANTED.discard) == ("interest", "file", "new")
    assert (WANTED.max_msgs, WANTED.max_bytes, WANTED.max_msgs_per_subject) == (-1, 700 * 2**20, 1_000_000)
    assert WANTED.discard_new_per_subject is True, "a full subject would drop acknowledged events"


def test_unlimited_or_discarding_stream_refuses_nothing_per_subject():
    for values in ({"maxMessagesPerSubject": 0}, {"discardPolicy": "old"}):
        assert streams.stream_config(BUS, a_config(**values)).discard_new_per_subject is UNSET


def test_unlimited_values_are_normalised():
    config = streams.stream_config(BUS, a_config(maxMessages=0, maxBytes="0", maxMessagesPerSubject=-1))
    assert (config.max_msgs, config.max_bytes, config.max_msgs_per_subject) == (-1, -1, -1)


def test_retry_stream_refuses_overflow_and_keeps_events_without_consumer():
    retry = streams.retry_config(BUS, a_config())
    assert (retry.name, retry.subjects, retry.retention) == ("sap-retry", ("retry.sap.*",), "workqueue")
    assert (retry.discard, retry.discard_new_per_subject) == ("new", True)
    assert 0 < retry.max_msgs_per_subject < retry.max_msgs
    # Existing servers have no room that another stream could reserve.
    assert retry.max_bytes == -1


def test_dead_letter_stream_is_limited_in_age_and_size():
    dead = streams.dead_letter_config(BUS, a_config())
    subjects = ("dead-letter.sap", "dead-letter.sap.*")
    assert (dead.name, dead.subjects, dead.retention) == ("sap-dead-letter", subjects, "limits")
    assert (dead.max_bytes, dead.max_age) == (128 * 2**20, 7 * 24 * 3600 * 10**9)
    dead = streams.dead_letter_config(BUS, a_config(deadLetterMaxAge="90m", deadLetterMaxBytes="2Gi"))
    assert (dead.max_bytes, dead.max_age) == (2 * 2**30, 90 * 60 * 10**9)


@pytest.mark.parametrize(
    "edit",
    [
        {"max_msgs": 5},
        {"max_age": 1},
        {"subjects": ("other.>",)},
        {"discard_new_per_subject": UNSET},
        {"deny_purge": True},
        {"max_consumers": 1},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_edited_stream_is_corrected(edit):
    edited = msgspec.structs.replace(WANTED, **edit)
    assert streams.differences(WANTED, edited) == list(edit)
    assert streams.differences(WANTED, streams.merge_config(WANTED, edited)) == []


def test_foreign_stream_settings_are_kept():
    theirs = msgspec.structs.replace(WANTED, description="orders", metadata={"team": "shop"}, max_msgs=1)
    mended = streams.merge_config(WANTED, theirs)
    assert mended.description == "orders"
    assert mended.metadata == {"team": "shop", streams.OWNER: "shop/bus/uid-1"}
    assert streams.differences(WANTED, msgspec.structs.replace(WANTED, description="orders")) == []


def test_stream_metadata_names_its_owner():
    assert streams.owner_of(WANTED) == ObjectKey("shop", "bus")
    assert streams.is_marked_for(BUS, WANTED)
    assert streams.owner_of(streams.without_owner(WANTED)) is None
    assert streams.owner_of(msgspec.structs.replace(WANTED, metadata={streams.OWNER: "odd"})) is None


@pytest.mark.parametrize("mark", ["", "shop/bus/uid-0"], ids=["unmarked", "of a deleted backend"])
def test_stream_without_mark_of_this_backend_differs(mark):
    found = msgspec.structs.replace(WANTED, metadata={streams.OWNER: mark} if mark else {})
    assert streams.differences(WANTED, found) == [streams.OWNER]
    assert streams.is_marked_for(BUS, streams.merge_config(WANTED, found))


@pytest.mark.parametrize(
    ("prefix", "kept", "want"),
    [
        ("new", "old", ("new.>", "old.>")),
        ("same", "same", ("same.>",)),
        ("kyma.shop", "kyma", ("kyma.>",)),
        ("kyma", "kyma.shop", ("kyma.>",)),
        ("kymax", "kyma", ("kymax.>", "kyma.>")),
    ],
)
def test_stream_keeps_old_subjects_during_a_migration(prefix, kept, want):
    config = a_config(streamSubjectPrefix=prefix)
    assert streams.stream_config(BUS, config, [kept]).subjects == want


@pytest.mark.parametrize(
    ("values", "state", "want"),
    [
        ({}, {"bytes": 700 * 2**20 - 2**16}, ""),
        ({}, {"bytes": 700 * 2**20 - 2**16 + 1}, "maxBytes"),
        ({"maxBytes": "1"}, {}, "maxBytes"),
        ({"maxMessages": 5}, {"messages": 4}, ""),
        ({"maxMessages": 5}, {"messages": 5}, "maxMessages"),
        ({"maxMessagesPerSubject": 5}, {"messages": 9, "subjects": {"a": 4, "b": 4}}, ""),
        (
            {"maxMessagesPerSubject": 5},
            {"messages": 9, "subjects": {"a": 4, "b": 5}},
            "maxMessagesPerSubject",
        ),
        ({"maxMessages": 5, "discardPolicy": "old"}, {"messages": 5}, ""),
        ({"maxBytes": "0", "maxMessagesPerSubject": 0}, {"bytes": 10**12, "messages": 10**9}, ""),
    ],
)
def test_stream_without_room_for_an_event_names_the_limit(values, state, want):
    found = StreamInfo(config=streams.stream_config(BUS, a_config(**values)), state=StreamState(**state))
    assert streams.full_limit(found) == want
