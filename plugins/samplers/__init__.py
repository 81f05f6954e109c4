"""The built-in samplers, one algorithm a file."""

from __future__ import annotations

from harness import Info, hook

SAMPLERS = {
    "adadelta-sgld": (
        "adadelta_sgld:AdadeltaSGLD", "SGLD with a drift by Adadelta (ours)",
        "biased_drift:AdadeltaSGLDLaw",
    ),
    "adam": ("adam:Adam", "Adam (Kingma, Ba 2015), an optimiser", "adam:AdamLaw"),
    "adam-sgld": (
        "adam_sgld:AdamSGLD", "Adam with Langevin noise (Hitchcock, Hoogland 2025)",
        "preconditioned:AdamSGLDLaw",
    ),
    "adamax-sgld": ("adamax_sgld:AdamaxSGLD", "SGLD with a drift by Adamax (ours)", "biased_drift:AdamaxSGLDLaw"),
    "amagold": ("amagold:AMAGOLD", "SGHMC with an amortised Metropolis test (Zhang et al. 2020)", ""),
    "asgld": ("asgld:ASGLD", "SGLD with a drift biased by Adam (Kim et al. 2022)", "biased_drift:ASGLDLaw"),
    "baoab": ("baoab:BAOAB", "Langevin by the BAOAB splitting (Leimkuhler, Matthews 2013)", ""),
    "contour-sgld": (
        "contour_sgld:ContourSGLD", "SGLD on a flattened landscape (Deng et al. 2020)",
        "contour:ContourLaw",
    ),
    "dq-sgld": (
        "dq_sgld:DQSGLD", "SGD calibrated to the posterior or the sandwich (Wang et al. 2026)",
        "dq_sgld:DQSGLDLaw",
    ),
    "entropy-mcmc": ("entropy_mcmc:EntropyMCMC", "SGLD tied to an anchor (Li, Zhang 2024)", ""),
    "ggmc": ("ggmc:GGMC", "OBABO with a Metropolis test (Garriga-Alonso, Fortuin 2021)", ""),
    "hmc": ("hmc:HMC", "Hamiltonian Monte Carlo, full gradients, Metropolis", ""),
    "mclmc": ("mclmc:MCLMC", "microcanonical Langevin, full gradients (Robnik et al. 2023)", ""),
    "msgld": ("msgld:MSGLD", "SGLD with a momentum-biased drift (Kim et al. 2022)", ""),
    "msgld-corrected": ("msgld_corrected:MSGLDCorrected", "msgld at (1 + a) T (ours)", ""),
    "ngvi": ("ngvi:NGVI", "variational mixture by natural gradients (Lin et al. 2019)", "ngvi:NGVILaw"),
    "obabo": ("obabo:OBABO", "Langevin by the OBABO splitting (Bussi, Parrinello 2007)", ""),
    "pmsgld": ("pmsgld:PMSGLD", "MSGLD under the preconditioner of psgld, lagged (ours)", "preconditioned:PMSGLDLaw"),
    "psgld": ("psgld:PSGLD", "SGLD preconditioned as RMSprop (Li et al. 2016)", "preconditioned:PSGLDLaw"),
    "psmile": (
        "smile:PSMILE", "smile under a diagonal that evens out gradient noise (2026)",
        "microcanonical:PSMILELaw",
    ),
    "relativistic-sghmc": ("relativistic_sghmc:RelativisticSGHMC", "SGHMC with bounded speed (Lu et al. 2017)", ""),
    "resgld": ("resgld:RESGLD", "replica-exchange SGLD (Deng et al. 2020)", ""),
    "rmsprop-sgld": (
        "rmsprop_sgld:RMSpropSGLD", "psgld from a large size, corrected (Hitchcock, Hoogland 2025)",
        "preconditioned:RMSpropSGLDLaw",
    ),
    "sa-sgld": ("sa_sgld:SASGLD", "SGLD with steps adapted by a change of time (2025)", ""),
    "samadams": (
        "samadams:SamAdams", "BAOAB with steps adapted by a change of time (Leimkuhler et al. 2025)",
        "samadams:SamAdamsLaw",
    ),
    "santa": ("santa:Santa", "annealed thermostats (Chen et al. 2016), an optimiser in the end", "santa:SantaLaw"),
    "sgd": ("sgd:SGD", "stochastic gradient descent, an optimiser", ""),
    "sgdm": ("sgdm:SGDM", "SGD with momentum in the velocity form, an optimiser", ""),
    "sgfs": ("sgfs:SGFS", "stochastic gradient Fisher scoring (Ahn et al. 2012)", "second_order:SGFSLaw"),
    "sg-barker": ("sg_barker:SGBarker", "Barker dynamics, signs by the gradient (Mauri, Zanella 2024)", ""),
    "sg-barker-corrected": (
        "sg_barker:SGBarkerCorrected", "sg-barker that allows for gradient noise (Mauri, Zanella 2024)",
        "barker:SGBarkerCorrectedLaw",
    ),
    "sg-bps": ("sg_bps:SGBPS", "bouncy particle sampler on minibatches (Fearnhead et al. 2024)", ""),
    "sg-ubu": ("sg_ubu:SGUBU", "Langevin by the UBU splitting, on minibatches (Paulin et al. 2025)", ""),
    "sg-zigzag": ("sg_zigzag:SGZigzag", "zig-zag process on minibatches (Fearnhead et al. 2024)", ""),
    "sghmc": ("sghmc:SGHMC", "stochastic gradient HMC, velocity first (Chen et al. 2014)", ""),
    "sghmc-prec": (
        "sghmc_prec:PreconditionedSGHMC", "SGHMC preconditioned as RMSprop (Izmailov et al. 2021)",
        "preconditioned:PreconditionedSGHMCLaw",
    ),
    "sghmc-svrg": ("sghmc_svrg:SGHMCSVRG", "SGHMC with variance reduction (Li et al. 2019)", ""),
    "sgld": ("sgld:SGLD", "stochastic gradient Langevin dynamics (Welling, Teh 2011)", ""),
    "sgld-cv": ("sgld_cv:SGLDCV", "SGLD with control variates (Baker et al. 2019)", ""),
    "sgld-svrg": ("sgld_cv:SGLDSVRG", "SGLD with variance reduction (Dubey et al. 2016)", ""),
    "sglrw": ("sglrw:SGLRW", "steps of fixed length, signs by the gradient (2026)", ""),
    "sgnht": ("sgnht:SGNHT", "Langevin with a thermostat for its friction (Ding et al. 2014)", "thermostat:SGNHTLaw"),
    "sgrld": ("sgrld:SGRLD", "Langevin dynamics in a metric (Patterson, Teh 2013)", ""),
    "smile": ("smile:SMILE", "microcanonical motion, refreshed by gradient noise (2026)", "microcanonical:SMILELaw"),
    "sqnlmc": ("sqnlmc:SQNLMC", "quasi-Newton Langevin, HAMCMC (Simsekli et al. 2016)", "second_order:SQNLMCLaw"),
}  # fmt: skip
"""The class in this package, the summary, and the law in its `laws` (or "") of each sampler, by name."""
BASELINES = {
    "laplace": ("laplace:Laplace", "Laplace approximation with the Gauss-Newton matrix, a baseline", "LaplaceLaw"),
    "laplace-signs": (
        "laplace_signs:LaplaceSigns", "Laplace approximation with a diagonal Hessian by random signs, a baseline",
        "LaplaceSignsLaw",
    ),
    "last-layer-laplace": (
        "last_layer_laplace:LastLayerLaplace", "Laplace approximation of a network's last layer alone, a baseline",
        "LaplaceLaw",
    ),
    "last-layer-laplace-signs": (
        "last_layer_laplace_signs:LastLayerLaplaceSigns", "laplace-signs of a network's last layer alone, a baseline",
        "LastLayerLaplaceSignsLaw",
    ),
    "mc-dropout": (
        "mc_dropout:MCDropout", "SGD with dropped units, in the draws too (Gal, Ghahramani 2016), a baseline",
        "MCDropoutLaw",
    ),
    "swag": ("swag:SWAG", "Gaussian fitted to iterates of SGD (Maddox et al. 2019), a baseline", "SWAGLaw"),
}  # fmt: skip
"""The same of those that are no samplers of the posterior, in `plugins.baselines`."""


OPTIMISERS = ("adam", "sgd", "sgdm")


@hook
def bench_samplers() -> list[Info]:
    """The samplers of this package, and the baselines."""
    samplers = [
        Info(
            name,
            f"plugins.samplers.{target}",
            summary,
            law=law and f"plugins.samplers.laws.{law}",
            optimiser=name in OPTIMISERS,
        )
        for name, (target, summary, law) in SAMPLERS.items()
    ]
    baselines = [
        Info(name, f"plugins.baselines.{target}", summary, law=f"plugins.baselines.laws:{law}", baseline=True)
        for name, (target, summary, law) in BASELINES.items()
    ]
    return sorted([*samplers, *baselines], key=lambda info: info.name)
