"""What is claimed about a sampler beyond what its class declares, and how the claim is tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness import PluginError, Registry, Sampler, registry
from harness.contracts import load


class SamplerLaw:
    """The law of a sampler whose stationary law is not what `limit_bias` says, or that has none.

    It is offered with the sampler, `Info(name, target, summary, law="package.module:Class")`, and is not part of the
    sampler's module: a claim does not change what a run computes, so changing a claim does not change run keys.

    settings   hyperparameters at which the whole law is simulated, and the defaults too if the claim is the target
    exempt     law of `bench check` -> reason, with the size of the deviation, as in `Sampler.exempt`
    clocks     state entry that counts steps -> reason why a step may depend on it: the effect vanishes as the count
               grows, at least as fast as 10 / sqrt(steps), as the effect of a bias correction does
    noisy_variance  variance of a coordinate of the gradient's noise -> variance of the draws on N(0, 1) at T = 1 as
               h -> 0, at the default settings, of a sampler whose scaling or clip uses the gradient of the same
               minibatch; {}: that noise changes nothing
    shows      a sentence that says what `check` shows, for `bench show` and the sampler's page
    """

    settings: ClassVar[Sequence[Mapping[str, Any]]] = ()
    exempt: ClassVar[Mapping[str, str]] = {}
    clocks: ClassVar[Mapping[str, str]] = {}
    noisy_variance: ClassVar[Mapping[float, float]] = {}
    shows: ClassVar[str] = ""

    def variance(self, sampler: Any) -> float | None:
        """Return the variance on N(0, 1) at T = 1 as h -> 0, with exact gradients and adaptation included.

        If it differs from `limit_bias`, for which adaptive entries are held fixed, the slow limit of `step` is derived
        and must have this variance, and the simulations at `settings` must have that slow limit.
        """
        return sampler.limit_bias()

    def check(self, sampler: Any) -> None:
        """Test a law of its own; raise AssertionError with what is wrong and by how much."""
        raise NotImplementedError

    @property
    def ships(self) -> bool:
        """Whether the class defines `check`, a law of its own."""
        return type(self).check is not SamplerLaw.check


def law_of(sampler: Sampler) -> SamplerLaw:
    """Return the `SamplerLaw` that is offered with the class of a sampler, or else with its nearest base class."""
    registry()
    targets = (Registry.laws.get(f"{cls.__module__}:{cls.__qualname__}") for cls in type(sampler).__mro__)
    target = next((target for target in targets if target), "")
    if not target:
        return SamplerLaw()
    law = load(target)
    if not (isinstance(law, type) and issubclass(law, SamplerLaw)):
        name = type(sampler).__name__
        raise PluginError(f"{target}, offered as the law of {name}, is not a plugins.checking.SamplerLaw")
    return law()


def exemptions(sampler: Sampler) -> Mapping[str, str]:
    """Return law -> reason of the exemptions that the sampler or its law declares."""
    return {**law_of(sampler).exempt, **sampler.exempt}
