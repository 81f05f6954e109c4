"""Protocols that are refused where they are declared."""

import pytest

from harness import UsageError, registry
from harness.tasks import Protocol
from plugins.checking.check import _made


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"budgets": {}}, "it has no budget"),
        ({"budgets": {"paper": 0}}, "budget paper: 0 is not a number of gradients"),
        ({"seeds": (10**9,)}, "are not numbers from 0"),
        ({"chains": 0}, "chains = 0 is not a number of chains"),
        ({"burn_in": 1.0}, "burn_in = 1.0 is not a share"),
        ({"thin": 0}, "thin = 0 is not a whole number"),
        ({"settings": {"width": 4}}, "the setting 'width' has no dotted name, such as task.width"),
        ({"settings": {"run.thin": 4}}, "the setting run.thin is its field thin"),
        ({"settings": {5: 4}}, "the setting 5 has no dotted name"),
        ({"budget_settings": {"paper": {"width": 4}}}, "the setting 'width' has no dotted name"),
        ({"budget_settings": {"quick": {}}}, "settings for 'quick', which is not one of its budgets"),
    ],
)
def test_a_protocol_that_cannot_be_is_refused(changed, message):
    given = {"name": "p", "summary": "", "budgets": {"paper": 5}} | changed
    with pytest.raises(UsageError, match=message):
        Protocol(**given)


def test_what_a_protocol_sets_of_its_task():
    protocol = Protocol("p", "", {"paper": 5}, settings={"task.width": 4, "run.warm_start": "adam"})
    assert protocol.task_settings() == {"width": 4}


def test_a_task_is_checked_with_the_settings_of_its_protocol():
    ((_, task),) = _made(registry(), "gaussian@smile-skewed", {})
    assert (task.noise_kind, task.noise) == ("skewed", 16.0)
    ((_, task),) = _made(registry(), "gaussian@smile-skewed", {"task.noise_kind": "isotropic"})
    assert (task.noise_kind, task.noise) == ("isotropic", 16.0)
