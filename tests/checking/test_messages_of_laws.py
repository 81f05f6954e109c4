"""A message of a law says what to do, and the sampler that does it passes."""

from __future__ import annotations

import pytest
import torch  # noqa: F401 - used in texts
from planted import maker
from planted.plain import Plain

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


@pytest.mark.parametrize(("law", "wrong", "said", "right"), [
    ("zero-temperature", CLIPPED, "zero_temperature = None", CLIPPED | {"zero_temperature": None}),
    ("derived-law", ACCUMULATED, "adaptive = ", ACCUMULATED | {"adaptive": ("s",)}),
    ("no-leaks", {"step": LOST}, "isfinite", {"step": KEPT}),
])  # fmt: skip
def test_what_the_message_says_is_accepted(law, wrong, said, right):
    before = outcome("Wrong", law, **wrong)
    assert before.outcome == "failed"
    assert said in before.message
    assert outcome("Right", law, **right).outcome in ("passed", "skipped")


def test_no_optimiser_is_declared_only_where_there_is_none():
    assert "declare 'sgd'" in outcome("Undeclared", "zero-temperature", zero_temperature=None).message


@pytest.mark.parametrize(("xi", "said"), [
    ("noise.uniform(theta.shape) - 0.5", "draws uniform numbers"), ("xi / 0", "not finite"),
    ("xi + torch.rand(())", "repeated"),
])  # fmt: skip
def test_the_reason_why_a_step_has_no_matrix_is_the_one(xi, said):
    assert said in outcome("Nonlinear", "derived-law", xi=xi).message
