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
        Info(
            "ramp-then-polynomial",
            f"{home}.ramp_then_polynomial:RampThenPolynomial",
            "down without noise, then a decay",
        ),
        Info("snapshot", f"{home}.snapshot:Snapshot", "cosine cycles that keep one draw each, where a cycle ends"),
        Info("step-decay", f"{home}.step_decay:StepDecay", "h_k = h0 gamma^floor(epoch / length)"),
        Info("two-stages", f"{home}.two_stages:TwoStages", "two step sizes and temperatures, one after the other"),
    ]
