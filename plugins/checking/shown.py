"""The text of `bench check` about what is shown of a sampler's law, from its declarations, without simulating."""

from __future__ import annotations

from harness import Sampler, linear
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import frozen
from plugins.checking.sampler_law import exemptions, law_of
from plugins.checking.samplers import homogeneity, whole
from plugins.checking.samplers.exact import SETTINGS, experiments

EVERYWHERE = (
    "at the defaults and at other settings, exact and noisy gradients: N(0, 1) and the quartic at T = 0.5, 1, 3, "
    "pairs of correlation .9, dense Gaussians in ten dimensions of condition 100"
)
PRECISION = "On N(0, 1) at T = 1 a variance 5 % off is seen with a chance of 90 %, elsewhere one 10 to 15 % off"


def shown(sampler: Sampler) -> list[dict[str, str]]:
    """Return one row per law: what is shown of this sampler, or that it is exempt, with the reason."""
    unmet = sampler.needs - GaussianTask.provides
    if unmet:
        return [{"law": "all", "shown": f"nothing: it needs {', '.join(sorted(unmet))}"}]
    exempt = exemptions(sampler)
    rows = {"derived-law": _derived(sampler), "real-loop": _path(sampler), "whole-law": _whole(sampler)}
    rows["time-homogeneity"] = _homogeneity(sampler)
    return [
        {"law": name, "shown": f"exempt: {exempt[name]}" if name in exempt else text} for name, text in rows.items()
    ]


def _homogeneity(sampler: Sampler) -> str:
    declared = law_of(sampler).clocks
    counts = (
        "; ".join(f"the effect of `{name}` vanishes ({reason})" for name, reason in declared.items())
        or "counts of steps in the state change nothing"
    )
    if sampler.limit_bias() is None:
        return f"{counts}; it declares no stationary law, so no windows of a long run are compared"
    return (
        f"{homogeneity.STEPS:,} steps at constant h and T: moments and squared moves of all windows agree to chance; "
        f"{counts}"
    )


def _derived(sampler: Sampler) -> str:
    if not linear.derive(sampler, 0.1, 1.0).linear:
        return "nothing: a step is not linear on a quadratic potential"
    if not sampler.limit_bias():
        return "nothing: it declares no stationary law" if sampler.limit_bias() is None else "it draws no noise"
    held = f", {' and '.join(sampler.adaptive)} held" if sampler.adaptive else ""
    return (
        f"exactly, from the code of a step{held}: the stationary law as h -> 0 at T from 1e-6 to 1000, with up to 24 "
        "curvatures, and with dense precision matrices"
    )


def _path(sampler: Sampler) -> str:
    known = experiments(frozen(sampler))
    if not known:
        return "nothing: it is neither linear nor a Metropolis kernel"
    kernel = "from exact draws, new draws are exact" if sampler.full_gradients_per_step else "its paths have their law"
    held_words = f", {' and '.join(sampler.adaptive)} held" if sampler.adaptive else ""
    return (
        f"the harness's own loop, to chance{held_words}: {kernel}, for up to {max(s.steps for s in SETTINGS)} steps "
        f"and {max(e.chains for e in known)} chains"
    )


def _whole(sampler: Sampler) -> str:
    law, limit = law_of(sampler), sampler.limit_bias()
    shipped = f"{law.shows or 'Its own law, SamplerLaw.check.'} " if law.ships else ""
    if limit == 0:
        return f"{shipped}Its path at T = 1 is that of the optimiser that it declares, for {whole.OPTIMISED} steps"
    if limit is None:
        return shipped or "nothing: it declares no stationary law, and real-loop holds its path"
    claimed = law.variance(sampler)
    if claimed != limit:
        at = "; ".join(", ".join(f"{k} = {v:g}" for k, v in one.items()) for one in law.settings)
        return (
            f"{shipped}Biased by adaptation: as h -> 0 its variance on N(0, 1) at T = 1 is {claimed:.4g}, derived from "
            "the code of a step, whose noise has one temperature. Simulated without freezing any state on N(0, 1) and "
            f"the quartic, at settings that reach the h -> 0 limit quickly: {at}. Not shown: the law with noisy "
            "gradients, with dense precision matrices, and at a step of finite size"
        )
    where = EVERYWHERE
    if whole.goes_by_energy(sampler):
        where = where.replace("exact and noisy gradients", "exact gradients only (noise in the energy biases it)")
    weighted = type(sampler).log_weight is not Sampler.log_weight
    nonlinear = bool(sampler.adaptive) or not linear.derive(sampler, 0.1, 1.0).linear
    precision = PRECISION.replace("5 % off", "7 % off" if weighted else "6 % off" if nonlinear else "5 % off", 1)
    bias = "" if limit == 1 else f" The law is exp(-U / (b T)) with b = {limit:.4g}."
    return f"{shipped}Simulated without freezing any state, {where}.{bias} {precision}"
