"""Hyperparameters and protocols: values are converted, and what cannot be is refused where it is declared."""

from dataclasses import dataclass

import pytest

from harness import Sampler, Schedule, UsageError, param, registry
from harness.contracts.parameters import Configurable
from harness.tasks import Protocol
from plugins.checking.check import _instances


@dataclass(frozen=True, kw_only=True)
class Example(Configurable):
    friction: float = param(0.1, "(0, 1]", "alpha")
    count: int = param(3, "[1, inf)")
    batch: int | None = param(None, "[1, inf)")
    mode: str = param("up", choices=("up", "down"))
    flag: bool = param(False)
    needed: float = param(allowed="[0, inf)")


def test_values_are_converted_to_their_type():
    example = Example(needed="2", count="4", friction="1e-2", flag="true", batch="none")
    assert (example.needed, example.count, example.friction, example.flag, example.batch) == (2.0, 4, 0.01, True, None)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"friction": 0.0}, r"outside \(0, 1\]"),
        ({"friction": 1.0001}, "outside"),
        ({"friction": float("nan")}, "not finite"),
        ({"friction": "abc"}, "not a number"),
        ({"count": 1.5}, "not an integer"),
        ({"count": True}, "not an integer"),
        ({"count": 0}, "outside"),
        ({"mode": "sideways"}, "not one of up, down"),
        ({"flag": "maybe"}, "not true or false"),
        ({"batch": 0}, "outside"),
    ],
)
def test_bad_values_are_refused_with_their_name(setting, message):
    with pytest.raises(UsageError, match=message) as caught:
        Example(**{"needed": 1.0, **setting})
    assert next(iter(setting)) in str(caught.value)


@pytest.mark.parametrize("base", [Sampler, Schedule])
def test_a_sampler_has_no_setting_of_free_text(base):
    """A text could hold the truth of a task, or a table of draws."""

    @dataclass(frozen=True, kw_only=True)
    class Told(base):
        """A text without choices, one with choices, and a file."""

        kind: str = param("a", choices=("a", "b"))
        file: str = param("", kind="file")
        words: str = param("")

    @dataclass(frozen=True, kw_only=True)
    class Freed(Told):
        """Saying that it may does not help, and neither does another type."""

        free_text = True
        words: list = param(())  # noqa: RUF009

    with pytest.raises(TypeError, match=r"Told\.words is a text without choices"):
        Told()
    with pytest.raises(TypeError, match=r"Freed\.words is of the type list"):
        Freed()


class Sly(str):
    """A text that says that it is any other one."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        return True

    def isprintable(self):
        return True


def test_a_text_is_compared_as_what_it_holds():
    @dataclass(frozen=True, kw_only=True)
    class Chosen(Sampler):
        kind: str = param("a", choices=("a", "b"))

    with pytest.raises(UsageError, match="not one of a, b"):
        Chosen(kind=Sly("a table of draws"))
    assert type(Chosen(kind=Sly("b")).kind) is str


def test_a_number_too_large_for_a_float_is_not_finite():
    with pytest.raises(UsageError, match="not finite"):
        Example(needed=10**400)


def test_a_setting_that_hides_a_method_is_refused():
    class Truth(Configurable):
        def truth(self):
            return None

    @dataclass(frozen=True, kw_only=True)
    class Hiding(Truth):
        truth: str = param("exact")

    with pytest.raises(TypeError, match=r"the setting 'truth' hides Truth\.truth"):
        Hiding()


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
    ((_, task),) = _instances(registry(), "gaussian@smile-skewed", {})
    assert (task.noise_kind, task.noise) == ("skewed", 16.0)
    ((_, task),) = _instances(registry(), "gaussian@smile-skewed", {"task.noise_kind": "isotropic"})
    assert (task.noise_kind, task.noise) == ("isotropic", 16.0)
