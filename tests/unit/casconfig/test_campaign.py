"""The random sequences find errors that CASConfig had once: without them, finding nothing would say nothing."""

import pytest

from quintet.apis.casconfig import layers, sameness
from quintet.apis.casconfig.layers import Setting, build_rewrite
from quintet.apis.casconfig.places import ABSENT
from unit.casconfig import campaign, worlds

ENOUGH = 1500


def roll_back_by_setting_again(patch):
    """A rollback set the values of the ledger again, as if the config had them in its spec."""

    def restore(live, config, layer, pod):
        entries = [each.entry for each in layer.values]
        return build_rewrite(live, config, [Setting(each.path, each.now, each.at) for each in entries], pod)

    patch.setattr(worlds, "restore_layer", restore)


def forget_what_was_not_read(patch):
    """Of an object of which only metadata were read, the entries about its pods were dropped."""
    patch.setattr(layers._Stack, "_is_unread", lambda self, ledger, entry: False)


def expect_any_digest_to_be_present(patch):
    """An image with a digest was expected to be pulled only if not present."""
    rule = sameness._pull_policy
    patch.setattr(sameness, "_pull_policy", lambda image: "IfNotPresent" if "@" in image else rule(image))


def restore_whole_containers(patch):
    """A container that others had changed was restored as a whole, and nobody was told."""
    rule = layers._Stack._beneath

    def beneath(self, entry, found, held, ends):
        brought = entry.is_container and entry.now is not ABSENT
        return entry.was if brought else rule(self, entry, found, held, ends)

    patch.setattr(layers._Stack, "_beneath", beneath)


OLD_RULES = {
    roll_back_by_setting_again: (0, 1, 2, 3, 4, 5, 10, 11),
    forget_what_was_not_read: (0, 3, 12),
    expect_any_digest_to_be_present: (0, 2, 3),
    restore_whole_containers: (0, 2, 3, 8),
}
"""Rules that were wrong once, and the operations that show it."""


@pytest.mark.parametrize(
    ("rule", "operations"), OLD_RULES.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_random_sequences_find_an_old_error(rule, operations, monkeypatch):
    assert next(campaign.violations("old", 60, operations), None) is None
    rule(monkeypatch)
    assert next(campaign.violations("old", ENOUGH, operations), None) is not None


def test_sequence_is_shortened_to_what_the_error_needs(monkeypatch):
    forget_what_was_not_read(monkeypatch)
    found = next(campaign.violations("old", ENOUGH, (0, 3, 4, 12))).shortened()
    assert {operation for operation, _, _ in found.steps} == {0, 12}
