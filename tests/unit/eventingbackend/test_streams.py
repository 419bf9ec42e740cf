"""The streams of a backend: how they must be, how they differ, and whose they are."""

import msgspec
import pytest
from msgspec import UNSET

from quintet.apis.meta import ObjectKey
from quintet.eventing import streams
from unit.eventingbackend.samples import a_backend, a_config

BUS = a_backend()
WANTED = streams.stream_config(BUS, a_config())


def test_the_defaults_keep_events_until_every_subscription_has_them_and_refuse_what_is_too_much():
    assert (WANTED.name, WANTED.subjects) == ("sap", ("kyma.>",))
    assert (WANTED.retention, WANTED.storage, WANTED.discard) == ("interest", "file", "new")
    assert (WANTED.max_msgs, WANTED.max_bytes, WANTED.max_msgs_per_subject) == (-1, 700 * 2**20, 1_000_000)
    assert WANTED.discard_new_per_subject is True, "a full subject would drop acknowledged events"


def test_without_a_limit_per_subject_or_when_old_events_go_nothing_is_refused_per_subject():
    for values in ({"maxMessagesPerSubject": 0}, {"discardPolicy": "old"}):
        assert streams.stream_config(BUS, a_config(**values)).discard_new_per_subject is UNSET


def test_no_limit_is_said_in_one_way():
    config = streams.stream_config(BUS, a_config(maxMessages=0, maxBytes="0", maxMessagesPerSubject=-1))
    assert (config.max_msgs, config.max_bytes, config.max_msgs_per_subject) == (-1, -1, -1)


def test_dead_letters_are_bounded_in_age_and_size():
    dead = streams.dead_letter_config(BUS, a_config())
    assert (dead.name, dead.subjects, dead.retention) == ("sap-dead-letter", ("dead-letter.sap",), "limits")
    assert dead.max_bytes > 0
    assert dead.max_age == 7 * 24 * 3600 * 10**9


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
def test_an_edit_is_seen_and_put_right(edit):
    edited = msgspec.structs.replace(WANTED, **edit)
    assert streams.differences(WANTED, edited) == list(edit)
    assert streams.differences(WANTED, streams.put_right(WANTED, edited)) == []


def test_what_is_none_of_our_business_is_left_alone():
    theirs = msgspec.structs.replace(WANTED, description="orders", metadata={"team": "shop"}, max_msgs=1)
    mended = streams.put_right(WANTED, theirs)
    assert mended.description == "orders"
    assert mended.metadata == {"team": "shop", streams.OWNER: "shop/bus/uid-1"}
    assert streams.differences(WANTED, msgspec.structs.replace(WANTED, description="orders")) == []


def test_a_stream_says_whose_it_is():
    assert streams.owner_of(WANTED) == (ObjectKey("shop", "bus"), "uid-1")
    assert streams.owner_of(streams.without_mark(WANTED)) is None
    assert streams.owner_of(msgspec.structs.replace(WANTED, metadata={streams.OWNER: "odd"})) is None


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
def test_a_stream_takes_what_pods_still_publish_while_they_move_to_other_subjects(prefix, kept, want):
    config = a_config(streamSubjectPrefix=prefix)
    assert streams.stream_config(BUS, config, kept).subjects == want
