"""Transforms of the library posteriors as samplers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Noise, PluginError, Potential, Sampler

if TYPE_CHECKING:
    from torch import Tensor

    State = dict[str, Tensor]

NOT_KEPT = frozenset({"log_posterior", "step"})
"""Entries of a transform's state that are not kept: a value that nothing reads, and the count for its own schedules."""


class Posteriors(Sampler):
    """A transform of posteriors that samples from U: each chain is a parameter (D,) with a state of its own.

        class Sgnht(Posteriors):
            def transform(self, log_posterior, h, T):
                return posteriors.sgmcmc.sgnht.build(log_posterior, lr=h.sqrt(), temperature=T)

    If each coordinate moves independently (`elementwise`: sgld, sghmc, baoa, sglrw; not sgnht, whose thermostat belongs
    to a whole chain), all chains are one parameter (C, D), which gives the same numbers in less time.

    `log_posterior` stands for -U and has the potential's gradient at the position before the step. A transform may
    differentiate it once per step, at that position; anything else raises `PluginError`. h multiplies grad U: it is
    `lr` for sgld and sglrw, and lr^2/sigma^2 for transforms with a momentum. Numbers that the library draws from
    torch's global generator come from the chains' streams. Its own schedules stay at step 0: h and T are those of the
    harness.

    State: the entries that the transform keeps, without the position. Source:
    https://github.com/normal-computing/posteriors.
    """

    elementwise: ClassVar[bool] = False
    exempt: ClassVar[Mapping[str, str]] = {"compiled": "posteriors differentiates within a step"}

    @abstractmethod
    def transform(self, log_posterior: Callable[..., Any], h: Tensor, T: Tensor) -> Any:
        """Return the transform for this log posterior, with step size h and temperature T."""

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> State:
        """Return the initial state of the transform; momenta are drawn."""
        state = self._moved(theta, {}, None, h, T, noise)[1]
        return {entry: leaf.to(theta.dtype) if leaf.is_floating_point() else leaf for entry, leaf in state.items()}

    def step(
        self, theta: Tensor, state: State, potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, State]:
        return self._moved(theta, state, potential.grad(theta), h, T, noise)

    def _moved(
        self, theta: Tensor, state: State, g: Tensor | None, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, State]:
        """Return position and state after a step along g (C, D); without g, those of the new transform."""
        import torch

        from plugins.adapters.randomness import ChainRandomness, each

        name = type(self).__name__
        states: list[State] = []
        for chain, randomness in each(name, noise, len(theta), together=self.elementwise):
            step_size, heat = (x if self.elementwise or not x.dim() else x[chain, 0] for x in (h, T))
            params = theta[chain]
            transform = self.transform(_log_posterior(name, params), step_size, heat)
            if not hasattr(transform, "init") or not hasattr(transform, "update"):
                raise PluginError(f"{name}: transform() returned {transform!r:.80}, which has no init and update")
            if g is None:
                with randomness:
                    new = transform.init(params)
            else:
                with ChainRandomness(name, lambda _, like: like.new_zeros(like.shape)):
                    fresh = transform.init(params)
                kept = {entry: leaf[chain] for entry, leaf in state.items()}
                with randomness:
                    new, _ = transform.update(type(fresh)(**{**fresh.to_dict(), **kept, "params": params}), g[chain])
            states.append({entry: leaf for entry, leaf in new.to_dict().items() if entry not in NOT_KEPT})
        if other := [entry for entry, leaf in states[0].items() if not isinstance(leaf, torch.Tensor)]:
            raise PluginError(
                f"{name}: {other[0]!r} of the transform's state is not a tensor, so that no checkpoint can hold it"
            )
        if wrong := [entry for entry, leaf in states[0].items() if self.elementwise and leaf.shape != theta.shape]:
            raise PluginError(
                f"{name}: {wrong[0]!r} of the transform's state is not of each coordinate; set elementwise = False"
            )
        after = states[0] if self.elementwise else {e: torch.stack([one[e] for one in states]) for e in states[0]}
        return after.pop("params"), after


def _log_posterior(name: str, position: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return -U as a function params -> -params . g, up to terms without effect on its gradient -g at the position.

    It can be called once, at the position; otherwise it raises `PluginError`.
    """
    asked = []

    def of(params: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        if asked or not params.detach().allclose(position, rtol=0, atol=0, equal_nan=True):
            raise PluginError(
                f"{name}: the transform differentiates the log posterior more than once in a step, or elsewhere than "
                "where the step begins; only the gradient there is known"
            )
        asked.append(True)
        return -(params * g).sum(), g.new_zeros(0)

    return of
