"""The built-in samplers, one algorithm a file."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_samplers() -> list[Info]:
    """The samplers of this package."""
    return [
        Info("hmc", "plugins.samplers.hmc:HMC", "Hamiltonian Monte Carlo, full gradients, Metropolis"),
        Info("msgld", "plugins.samplers.msgld:MSGLD", "SGLD with a momentum-biased drift (Kim et al. 2022)"),
        Info("sghmc", "plugins.samplers.sghmc:SGHMC", "stochastic gradient HMC, velocity first (Chen et al. 2014)"),
        Info("sgld", "plugins.samplers.sgld:SGLD", "stochastic gradient Langevin dynamics (Welling, Teh 2011)"),
    ]
