"""A message of a law says what to do, and the sampler that does it passes."""

from __future__ import annotations

import pytest
import torch  # noqa: F401 - used in texts
from planted import maker
from planted.plain import Plain

from harness import UsageError
from plugins.checking.law import Broken, cycles
from plugins.checking.samplers import homogeneity
from plugins.checking.suite import check_sampler

pytestmark = pytest.mark.usefixtures("one_thread")
defined = maker(globals())

CLIPPED = {"gradient": "gradient.clamp(-5, 5)"}
ACCUMULATED = {"init": "{'s': theta.new_ones((len(theta), 1))}", "adapt": "{'s': state['s'] + h}"}
CHOOSES = "g = potential.grad(theta); moved = theta - h * g + (2 * h * T).sqrt() * noise.normal(theta); "
LOST = f"{CHOOSES}moved.where(moved.square().sum(1, keepdim=True) < 1e6, theta * 0), state"
KEPT = LOST.replace("< 1e6", "< 1e6) | ~moved.isfinite().all(1, keepdim=True)").replace("where(moved", "where((moved")


def outcome(name, law, **parts):
    (result,) = check_sampler(defined(name, Plain, **parts), [law])
    return result


# H g by a difference quotient, along g or a direction of length 1.
HESSIAN = (
    "g = potential.grad(theta); size = {size}; eps = {eps}; ahead = potential.grad(theta + eps * g / size); "
    "move = g - h / 2 * (ahead - g) / eps * size; theta - h * move + (2 * h * T).sqrt() * noise.normal(theta), state"
)
ALONG = HESSIAN.format(size="g.square().sum(1, keepdim=True).sqrt().clamp(min=1e-30)", eps="{eps}")
QUOTIENT = {"gradients_per_step": 2, "zero_temperature": None}
NARROW = QUOTIENT | {"step": ALONG.format(eps="1e-7")}
WIDE = QUOTIENT | {"step": ALONG.format(eps="torch.finfo(theta.dtype).eps ** 0.25")}
DECLARED = {name: part for name, part in WIDE.items() if name != "zero_temperature"}  # as sgd
AS_LONG_AS_G = QUOTIENT | {"step": HESSIAN.format(size="1.0", eps="1e-5")}
# IVON: the Hessian by the gradient times the noise over T.
IVON = {
    "init": "{'m': theta, 's': torch.ones_like(theta)}",
    "step_unit": 0,
    "limit_bias": "None",
    "step": "m, s, g = state['m'], state['s'], potential.grad(theta); "
    "new = (0.999 * s + 0.001 * g * (theta - m) * s / T).clamp(min=1e-3); m = m - h * g / new; "
    "m + (T / new).sqrt() * noise.normal(theta), {'m': m, 's': new}",
}
REFUSES = IVON | {"zero_temperature": None, "check_steps": "refused(T)"}
TURNS = {"exempt": {"coordinates": "they take turns"}, "zero_temperature": None}
TURN = "state['k'] % 2 == torch.arange(theta.shape[1]) % 2"
COUNTED = TURNS | {
    "init": "{'k': torch.zeros((len(theta), 1), dtype=torch.int64)}",
    "step": f"on = {TURN}; theta + on * (super().step(theta, {{}}, potential, h, T, noise)[0] - theta), "
    "{'k': state['k'] + 1}",
}
MODULO = COUNTED | {"step": COUNTED["step"].replace("state['k'] + 1", "(state['k'] + 1) % 2")}
LAST_BITS = {"gradient": "gradient * (1 + 1e-14 * len(theta))"}
NORMED = {"zero_temperature": None, "step": "g = potential.grad(theta); norm = g.square().sum(1, keepdim=True).sqrt(); "
    "theta - h * g * norm / norm + (2 * h * T).sqrt() * noise.normal(theta), state"}  # fmt: skip


def refused(T):
    if min(T) <= 0:
        raise UsageError("no T = 0")


@pytest.mark.parametrize(("law", "wrong", "said", "right"), [
    ("one-step", NARROW, "difference quotient", WIDE), ("translation", NARROW, "difference quotient", WIDE),
    ("scale", AS_LONG_AS_G, "difference quotient", WIDE),
    ("zero-temperature", DECLARED, "zero_temperature = None", WIDE),
    ("zero-temperature", IVON, "def check_steps", REFUSES),
    ("zero-temperature", IVON | {"zero_temperature": None}, "def check_steps", REFUSES),
    ("seeds", LAST_BITS, "by exp and log", {}), ("seeds", NORMED, "the mode, where the gradient is 0", {}),
    ("zero-temperature", CLIPPED, "zero_temperature = None", CLIPPED | {"zero_temperature": None}),
    ("derived-law", ACCUMULATED, "adaptive = ", ACCUMULATED | {"adaptive": ("s",)}),
    ("no-leaks", {"step": LOST}, "isfinite", {"step": KEPT}),
])  # fmt: skip
def test_what_the_message_says_is_accepted(law, wrong, said, right):
    before = outcome("Wrong", law, **wrong)
    assert before.outcome == "failed"
    assert said in before.message
    assert outcome("Right", law, **right).outcome in ("passed", "skipped")


def test_a_turn_among_coordinates_is_kept_modulo_their_number():
    with pytest.raises(Broken, match="k modulo n"):
        homogeneity.clocks(defined("Counted", Plain, **COUNTED)())
    homogeneity.clocks(turning := defined("Modulo", Plain, **MODULO)())
    assert cycles(turning) == ["k"]
    for law in ("derived-law", "real-loop"):
        assert outcome("Modulo", law, **MODULO).outcome == "skipped"


def test_a_matrix_that_cannot_be_factored_is_explained():
    step = "values, _ = torch.linalg.eigh((theta / 0)[:, :, None] + theta[:, None]); step[0] + 0 * values, state"
    assert "factor the identity there" in outcome("Unfactored", "derived-law", step=step).message


def test_no_optimiser_is_declared_only_where_there_is_none():
    assert "declare 'sgd'" in outcome("Undeclared", "zero-temperature", zero_temperature=None).message


@pytest.mark.parametrize(("xi", "said"), [
    ("noise.uniform(theta.shape) - 0.5", "draws uniform numbers"), ("xi / 0", "not finite"),
    ("xi + torch.rand(())", "repeated"),
])  # fmt: skip
def test_the_reason_why_a_step_has_no_matrix_is_the_one(xi, said):
    assert said in outcome("Nonlinear", "derived-law", xi=xi).message
