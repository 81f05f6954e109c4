"""The built-in samplers, one algorithm a file."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_samplers() -> list[Info]:
    """The samplers of this package."""
    return [
        Info(
            "adadelta-sgld",
            "plugins.samplers.adadelta_sgld:AdadeltaSGLD",
            "SGLD with a drift by Adadelta (ours)",
            law="plugins.samplers.laws.biased_drift:AdadeltaSGLDLaw",
        ),
        Info(
            "adam",
            "plugins.samplers.adam:Adam",
            "Adam (Kingma, Ba 2015)",
            law="plugins.samplers.laws.adam:AdamLaw",
            optimiser=True,
        ),
        Info(
            "adamax-sgld",
            "plugins.samplers.adamax_sgld:AdamaxSGLD",
            "SGLD with a drift by Adamax (ours)",
            law="plugins.samplers.laws.biased_drift:AdamaxSGLDLaw",
        ),
        Info(
            "amagold", "plugins.samplers.amagold:AMAGOLD", "SGHMC with an amortised Metropolis test (Zhang et al. 2020)"
        ),
        Info(
            "asgld",
            "plugins.samplers.asgld:ASGLD",
            "SGLD with a drift biased by Adam (Kim et al. 2022)",
            law="plugins.samplers.laws.biased_drift:ASGLDLaw",
        ),
        Info("baoab", "plugins.samplers.baoab:BAOAB", "Langevin by the BAOAB splitting (Leimkuhler, Matthews 2013)"),
        Info(
            "contour-sgld",
            "plugins.samplers.contour_sgld:ContourSGLD",
            "SGLD on a flattened landscape (Deng et al. 2020)",
            law="plugins.samplers.laws.contour:ContourLaw",
        ),
        Info("entropy-mcmc", "plugins.samplers.entropy_mcmc:EntropyMCMC", "SGLD tied to an anchor (Li, Zhang 2024)"),
        Info("ggmc", "plugins.samplers.ggmc:GGMC", "OBABO with a Metropolis test (Garriga-Alonso, Fortuin 2021)"),
        Info("hmc", "plugins.samplers.hmc:HMC", "Hamiltonian Monte Carlo, full gradients, Metropolis"),
        Info(
            "laplace",
            "plugins.baselines.laplace:Laplace",
            "Laplace approximation with a diagonal Hessian, a baseline",
            law="plugins.baselines.laws:LaplaceLaw",
            baseline=True,
        ),
        Info(
            "last-layer-laplace",
            "plugins.baselines.last_layer_laplace:LastLayerLaplace",
            "Laplace approximation of a network's last layer alone, a baseline",
            law="plugins.baselines.laws:LastLayerLaplaceLaw",
            baseline=True,
        ),
        Info(
            "mc-dropout",
            "plugins.baselines.mc_dropout:MCDropout",
            "SGD with dropped units, in the draws too (Gal, Ghahramani 2016), a baseline",
            law="plugins.baselines.laws:MCDropoutLaw",
            baseline=True,
        ),
        Info("mclmc", "plugins.samplers.mclmc:MCLMC", "microcanonical Langevin, full gradients (Robnik et al. 2023)"),
        Info("msgld", "plugins.samplers.msgld:MSGLD", "SGLD with a momentum-biased drift (Kim et al. 2022)"),
        Info("msgld-corrected", "plugins.samplers.msgld_corrected:MSGLDCorrected", "msgld at (1 + a) T (ours)"),
        Info(
            "ngvi",
            "plugins.samplers.ngvi:NGVI",
            "variational mixture by natural gradients (Lin et al. 2019)",
            law="plugins.samplers.laws.ngvi:NGVILaw",
        ),
        Info("obabo", "plugins.samplers.obabo:OBABO", "Langevin by the OBABO splitting (Bussi, Parrinello 2007)"),
        Info(
            "pmsgld",
            "plugins.samplers.pmsgld:PMSGLD",
            "MSGLD under the preconditioner of psgld, lagged (ours)",
            law="plugins.samplers.laws.preconditioned:PMSGLDLaw",
        ),
        Info(
            "psgld",
            "plugins.samplers.psgld:PSGLD",
            "SGLD preconditioned as RMSprop (Li et al. 2016)",
            law="plugins.samplers.laws.preconditioned:PSGLDLaw",
        ),
        Info(
            "psmile",
            "plugins.samplers.smile:PSMILE",
            "smile under a diagonal that evens out gradient noise (2026)",
            law="plugins.samplers.laws.microcanonical:PSMILELaw",
        ),
        Info(
            "relativistic-sghmc",
            "plugins.samplers.relativistic_sghmc:RelativisticSGHMC",
            "SGHMC with bounded speed (Lu et al. 2017)",
        ),
        Info("resgld", "plugins.samplers.resgld:RESGLD", "replica-exchange SGLD (Deng et al. 2020)"),
        Info("sa-sgld", "plugins.samplers.sa_sgld:SASGLD", "SGLD with steps adapted by a change of time (2025)"),
        Info(
            "santa",
            "plugins.samplers.santa:Santa",
            "annealed thermostats (Chen et al. 2016), an optimiser in the end",
            law="plugins.samplers.laws.santa:SantaLaw",
        ),
        Info("sgd", "plugins.samplers.sgd:SGD", "stochastic gradient descent", optimiser=True),
        Info("sgdm", "plugins.samplers.sgdm:SGDM", "SGD with momentum in the velocity form", optimiser=True),
        Info(
            "sgfs",
            "plugins.samplers.sgfs:SGFS",
            "stochastic gradient Fisher scoring (Ahn et al. 2012)",
            law="plugins.samplers.laws.second_order:SGFSLaw",
        ),
        Info("sghmc", "plugins.samplers.sghmc:SGHMC", "stochastic gradient HMC, velocity first (Chen et al. 2014)"),
        Info(
            "sghmc-prec",
            "plugins.samplers.sghmc_prec:PreconditionedSGHMC",
            "SGHMC preconditioned as RMSprop (Izmailov et al. 2021)",
            law="plugins.samplers.laws.preconditioned:PreconditionedSGHMCLaw",
        ),
        Info("sghmc-svrg", "plugins.samplers.sghmc_svrg:SGHMCSVRG", "SGHMC with variance reduction (Li et al. 2019)"),
        Info("sgld", "plugins.samplers.sgld:SGLD", "stochastic gradient Langevin dynamics (Welling, Teh 2011)"),
        Info("sgld-cv", "plugins.samplers.sgld_cv:SGLDCV", "SGLD with control variates (Baker et al. 2019)"),
        Info("sgld-svrg", "plugins.samplers.sgld_cv:SGLDSVRG", "SGLD with variance reduction (Dubey et al. 2016)"),
        Info("sglrw", "plugins.samplers.sglrw:SGLRW", "steps of fixed length, signs by the gradient (2026)"),
        Info(
            "sgnht",
            "plugins.samplers.sgnht:SGNHT",
            "Langevin with a thermostat for its friction (Ding et al. 2014)",
            law="plugins.samplers.laws.thermostat:SGNHTLaw",
        ),
        Info("sgrld", "plugins.samplers.sgrld:SGRLD", "Langevin dynamics in a metric (Patterson, Teh 2013)"),
        Info(
            "smile",
            "plugins.samplers.smile:SMILE",
            "microcanonical motion, refreshed by gradient noise (2026)",
            law="plugins.samplers.laws.microcanonical:SMILELaw",
        ),
        Info(
            "sqnlmc",
            "plugins.samplers.sqnlmc:SQNLMC",
            "quasi-Newton Langevin, HAMCMC (Simsekli et al. 2016)",
            law="plugins.samplers.laws.second_order:SQNLMCLaw",
        ),
        Info(
            "swag",
            "plugins.baselines.swag:SWAG",
            "Gaussian fitted to iterates of SGD (Maddox et al. 2019), a baseline",
            law="plugins.baselines.laws:SWAGLaw",
            baseline=True,
        ),
    ]
