"""Checks of what a sampler's `init` and `step` take and return, with clear messages, before a law fails on it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from harness.contracts.sampler import Sampler
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import State


def check_signatures(sampler: Sampler) -> None:
    """Raise `PluginError` if `init` or `step` cannot be called as the harness calls them."""
    for name in ("init", "step"):
        wanted = list(inspect.signature(getattr(Sampler, name)).parameters)[1:]
        signature = inspect.signature(getattr(sampler, name))
        try:
            signature.bind(*wanted)
        except TypeError:
            raise PluginError(
                f"{type(sampler).__name__}.{name} takes ({', '.join(signature.parameters)}), "
                f"and is called with ({', '.join(wanted)})"
            ) from None


def check_state(sampler: Sampler, state: Any) -> State:
    """Return the state if it is a dict of tensors; raise `PluginError` otherwise."""
    wrong = type(state).__name__
    if isinstance(state, dict):
        wrong = next((type(leaf).__name__ for leaf in state.values() if not isinstance(leaf, torch.Tensor)), "")
    if wrong:
        raise PluginError(f"{type(sampler).__name__}: the state must be a dict of tensors, and has or is a {wrong}")
    return dict(state)


def entry(name: str) -> str:
    """Return the name of a state entry in messages, which is never "theta"."""
    return f"state {name!r}"


def named(theta: Tensor, state: State) -> dict[str, Tensor]:
    """Return position and state entries by their names in messages."""
    return {"theta": theta, **{entry(name): leaf for name, leaf in state.items()}}


def check_answer(sampler: Sampler, answer: Any) -> None:
    """Raise `PluginError` if a step did not return a position and a state."""
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], torch.Tensor):
        raise PluginError(
            f"{type(sampler).__name__}.step must return (theta, state), and returned a {type(answer).__name__}"
        )
    check_state(sampler, answer[1])
