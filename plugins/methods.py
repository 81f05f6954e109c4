"""Methods: a sampler under a schedule, by the name the literature has for the pair."""

from __future__ import annotations

from harness import Method, hook

LAST = 1_000_000_000
"""Of `run.thin`: more than any run has steps, so that only the last position is kept."""


@hook
def bench_methods() -> list[Method]:
    """The methods of this package."""
    return [
        Method("casgld", "asgld", "cyclical", "cyclical ASGLD (a pairing of both papers)"),
        Method("cmsgld", "msgld", "cyclical", "cyclical MSGLD (a pairing of both papers)"),
        Method("csghmc", "sghmc", "cyclical", "cyclical SGHMC (Zhang et al. 2020)"),
        Method("csghmc-prec", "sghmc-prec", "cyclical", "SGHMC-CLR-Prec (Izmailov et al. 2021)"),
        Method("csgld", "sgld", "cyclical", "cyclical SGLD (Zhang et al. 2020)"),
        Method(
            "deep-ensemble",
            "adam",
            "",
            "the last positions of independent runs of Adam, one a chain (Lakshminarayanan et al. 2017), a baseline",
            {"run.thin": LAST},
            baseline=True,
        ),
        Method("hmc-persistent", "hmc", "", "HMC that never draws its momentum anew", {"sampler.resample": False}),
        Method("sghmc-frictionless", "sghmc", "", "SGHMC without friction or noise", {"sampler.friction": 0.0}),
        Method("snapshot-sgd", "sgd", "snapshot", "snapshot ensemble of SGD (Huang et al. 2017)"),
        Method("snapshot-sgdm", "sgdm", "snapshot", "snapshot ensemble of SGD with momentum (Huang et al. 2017)"),
    ]
