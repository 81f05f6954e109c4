"""The built-in schedules, one a file."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_schedules() -> list[Info]:
    """The schedules of this package."""
    home = "plugins.schedules"
    return [
        Info("constant", f"{home}.constant:Constant", "h_k = h"),
        Info("constant-then-polynomial", f"{home}.constant_then_polynomial:ConstantThenPolynomial", "h, then a decay"),
        Info("cyclical", f"{home}.cyclical:Cyclical", "cosine cycles, exploring without noise, then sampling"),
        Info("polynomial", f"{home}.polynomial:Polynomial", "h_k = a (b + k)^-gamma"),
        Info("step-decay", f"{home}.step_decay:StepDecay", "h_k = h0 gamma^floor(epoch / length)"),
    ]
