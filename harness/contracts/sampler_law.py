"""What is claimed of one sampler beyond what its class declares, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler


class SamplerLaw:
    """The law of a sampler whose stationary law is not what `limit_bias` says, or that has none.

    It is offered beside the sampler, `Info(name, target, summary, law="package.module:Class")`, and kept apart from its
    module: a claim is no part of what a run computes, so changing one does not change the keys of runs.

    settings   hyperparameters at which the whole law is simulated, besides the defaults where the claim is the target
    exempt     law of `bench check` -> reason, with the size of what is not held, as in `Sampler.exempt`
    clocks     state entry that counts steps -> reason why a step may depend on it: the effect vanishes as the
               count grows, at least as fast as 10 / sqrt(steps), as that of a bias correction does
    shows      what `check` shows, in a sentence, for `bench show` and the sampler's page
    """

    settings: ClassVar[Sequence[Mapping[str, Any]]] = ()
    exempt: ClassVar[Mapping[str, str]] = {}
    clocks: ClassVar[Mapping[str, str]] = {}
    shows: ClassVar[str] = ""

    def variance(self, sampler: Any) -> float | None:
        """The variance on N(0, 1) at T = 1 as h -> 0, with exact gradients and adaptation included.

        Where it differs from `limit_bias`, in which adaptive entries are held, the slow limit of `step` is derived and
        has to have this variance, and the simulations at `settings` have to have that slow limit.
        """
        made: Sampler = sampler
        return made.limit_bias()

    def check(self, sampler: Any) -> None:
        """A law of its own; raises AssertionError with what is wrong and by how much."""
        raise NotImplementedError

    @property
    def ships(self) -> bool:
        """Whether there is a law of its own."""
        return type(self).check is not SamplerLaw.check
