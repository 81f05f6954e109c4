"""The correction for gradient noise of a known variance: injected noise less what the gradient brings."""

from __future__ import annotations

from collections.abc import Sequence

from harness import UsageError


def check(sampler: str, h: Sequence[float], T: Sequence[float], V: float, share: float) -> None:
    """Raise `UsageError` where a step has more gradient noise, h^2 V, than the `share` h T that it should have."""
    over = [step for step, heat in zip(h, T, strict=True) if heat > 0 and step * V > share * heat]
    if over:
        raise UsageError(
            f"{sampler}: gradient_variance = {V:g} is more noise than a step of h = {max(over):g} may have: "
            f"h^2 V > {share:g} h T; lower the step size"
        )
