"""Methods: a sampler under a schedule, by the name the literature has for the pair."""

from __future__ import annotations

from harness import Method, hook


@hook
def bench_methods() -> list[Method]:
    """The methods of this package."""
    return [
        Method("csghmc", "sghmc", "cyclical", "cyclical SGHMC (Zhang et al. 2020)"),
        Method("csgld", "sgld", "cyclical", "cyclical SGLD (Zhang et al. 2020)"),
    ]
