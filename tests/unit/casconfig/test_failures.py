"""What is remembered of a config that could not be applied."""

from quintet.apis.meta import ObjectKey, Resource
from quintet.controllers.casconfig.failures import FailureHistory

CONFIG = ObjectKey("shop", "config")
TARGET = (Resource("apps", "v1", "Deployment", "deployments"), ObjectKey("shop", "web"))


def test_failed_targets_are_remembered_until_success():
    failures = FailureHistory()
    assert failures.targets(CONFIG) == frozenset()
    failures.record(CONFIG, 1, {TARGET})
    assert failures.targets(CONFIG) == {TARGET}
    failures.forget(CONFIG)
    assert failures.targets(CONFIG) == frozenset()


def test_retry_delay_doubles_up_to_ten_minutes():
    failures, waits = FailureHistory(), []
    for _ in range(9):
        failures.record(CONFIG, 1, {TARGET})
        waits.append(failures.retry(CONFIG))
    assert waits == [5, 10, 20, 40, 80, 160, 320, 600, 600]


def test_edited_config_restarts_with_the_first_delay():
    failures = FailureHistory()
    for _ in range(4):
        failures.record(CONFIG, 1, {TARGET})
    failures.record(CONFIG, 2, {TARGET})
    assert failures.retry(CONFIG) == 5
