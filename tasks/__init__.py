"""The built-in tasks: synthetic/ (densities in closed form) and regression/ (posteriors on small data sets)."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_tasks() -> list[Info]:
    """The tasks of this package."""
    blr = "tasks.regression.blr"
    return [
        Info("blr-australian", f"{blr}:Australian", "Bayesian logistic regression, Australian credit, 690 x 15"),
        Info("blr-german", f"{blr}:German", "Bayesian logistic regression, German credit, 1000 x 25"),
        Info("blr-heart", f"{blr}:Heart", "Bayesian logistic regression, Statlog heart disease, 270 x 14"),
        Info("mixture25", "tasks.synthetic.mixture25:Mixture25", "25 narrow Gaussian modes (Zhang et al. 2020)"),
        Info("mixture5", "tasks.synthetic.mixture5:Mixture5", "5 wide Gaussian modes (Kim et al. 2022)"),
    ]  # fmt: skip
