from dataclasses import dataclass

import pytest

from harness import UsageError, param
from harness.contracts.parameters import Configurable


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


def test_a_setting_that_hides_a_method_is_refused():
    class Truth(Configurable):
        def truth(self):
            return None

    @dataclass(frozen=True, kw_only=True)
    class Hiding(Truth):
        truth: str = param("exact")

    with pytest.raises(TypeError, match=r"the setting 'truth' hides Truth\.truth"):
        Hiding()
