"""The built-in samplers, one algorithm a file."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_samplers() -> list[Info]:
    """The samplers of this package."""
    return [
        Info("adadelta-sgld", "plugins.samplers.adadelta_sgld:AdadeltaSGLD", "SGLD with a drift by Adadelta (ours)"),
        Info("adamax-sgld", "plugins.samplers.adamax_sgld:AdamaxSGLD", "SGLD with a drift by Adamax (ours)"),
        Info("baoab", "plugins.samplers.baoab:BAOAB", "Langevin by the BAOAB splitting (Leimkuhler, Matthews 2013)"),
        Info("hmc", "plugins.samplers.hmc:HMC", "Hamiltonian Monte Carlo, full gradients, Metropolis"),
        Info("msgld", "plugins.samplers.msgld:MSGLD", "SGLD with a momentum-biased drift (Kim et al. 2022)"),
        Info("msgld-corrected", "plugins.samplers.msgld_corrected:MSGLDCorrected", "msgld at (1 + a) T (ours)"),
        Info("pmsgld", "plugins.samplers.pmsgld:PMSGLD", "MSGLD under the preconditioner of psgld, lagged (ours)"),
        Info("sghmc", "plugins.samplers.sghmc:SGHMC", "stochastic gradient HMC, velocity first (Chen et al. 2014)"),
        Info("sgld", "plugins.samplers.sgld:SGLD", "stochastic gradient Langevin dynamics (Welling, Teh 2011)"),
    ]
