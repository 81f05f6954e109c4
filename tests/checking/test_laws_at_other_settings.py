"""The samplers keep the laws away from their defaults too: at the settings of the papers and at extremes."""

from __future__ import annotations

from dataclasses import fields

import pytest

from harness.contracts.registry import load, registry
from plugins.checking.law import frozen
from plugins.checking.samplers.exact import LinearPath, experiments
from plugins.checking.suite import check_samplers
from plugins.samplers.adadelta_sgld import AdadeltaSGLD
from plugins.samplers.adam import Adam
from plugins.samplers.adamax_sgld import AdamaxSGLD
from plugins.samplers.asgld import ASGLD
from plugins.samplers.baoab import BAOAB
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.msgld_corrected import MSGLDCorrected
from plugins.samplers.ngvi import NGVI
from plugins.samplers.pmsgld import PMSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.relativistic_sghmc import RelativisticSGHMC
from plugins.samplers.resgld import RESGLD
from plugins.samplers.samadams import SamAdams
from plugins.samplers.santa import Santa
from plugins.samplers.sgdm import SGDM
from plugins.samplers.sgfs import SGFS
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sghmc_svrg import SGHMCSVRG
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDCV, SGLDSVRG
from plugins.samplers.sgnht import SGNHT
from plugins.samplers.sqnlmc import SQNLMC

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = ("derived-law", "one-step", "scale", "zero-temperature")
SETTINGS = [
    SGLD(gradient_variance=0.5), SGHMC(friction=0.01), SGHMC(friction=1.0), MSGLD(a=0.0), MSGLD(a=20.0),
    MSGLD(a=10.0, beta1=0.99), HMC(leapfrog=1, jitter=0.0),
    SGDM(friction=0.01), SGDM(friction=0.5), SGDM(friction=1.0),
    Adam(beta1=0.0), Adam(beta1=0.99, beta2=0.9), Adam(lam=10.0),
    PSGLD(lam=1e-6), PSGLD(decay=0.9, lam=0.1), PSGLD(lam=10.0), PSGLD(gamma=True, lam=0.1),
    ASGLD(a=0.0), ASGLD(a=10.0), ASGLD(a=1000.0), ASGLD(a=20.0, lam=1e-8), ASGLD(a=1.0, beta1=0.5, lam=1.0),
    SGNHT(a=0.05), SGNHT(a=0.1), Santa(anneal=0.0), Santa(anneal=2.0, diffusion=0.0), Santa(lam=1e-8, friction=10.0),
    ContourSGLD(bins=10, high=10.0), ContourSGLD(zeta=2.0, cap=0.5), ContourSGLD(zeta=0.0), NGVI(components=1),
    NGVI(components=10, spread=0.1), HMC(resample=False), SGHMC(friction=0.0),
    SGHMC(friction=0.5, gradient_variance=0.5), SGHMC(friction=0.9),
    BAOAB(friction=0.01), BAOAB(friction=0.5), BAOAB(friction=1.0),
    MSGLDCorrected(a=0.0), MSGLDCorrected(a=10.0), MSGLDCorrected(a=10.0, beta1=0.99),
    AdamaxSGLD(a=0.0), AdamaxSGLD(a=10.0, lam=1.0), AdamaxSGLD(a=0.01, beta1=0.99, beta2=0.9),
    AdadeltaSGLD(a=0.0), AdadeltaSGLD(a=10.0, rho=0.9), AdadeltaSGLD(a=2.0, lam=1e-4, eps=1e-2),
    PMSGLD(a=0.0, lam=1.0), PMSGLD(a=10.0), PMSGLD(a=5.0, beta1=0.99, decay=0.9, lam=0.1),
    SGFS(b=0.01), SGFS(b=10.0), SGFS(b=1e4),
    SQNLMC(memory=3), SQNLMC(b=30.0), SQNLMC(memory=7, b=0.1),
    RelativisticSGHMC(c=0.3), RelativisticSGHMC(mass=2.0, friction=0.2), RelativisticSGHMC(mass=0.2, c=20.0),
    RESGLD(rate=0.0), RESGLD(ratio=10.0, rate=1.0), RESGLD(energy_variance=2.0),
    SGLDCV(descent=0), SGLDCV(descent=7), SGLDCV(descent=500),
    SGLDSVRG(period=1), SGLDSVRG(period=7), SGLDSVRG(period=1000),
    SGHMCSVRG(friction=0.01), SGHMCSVRG(friction=0.5, period=3), SGHMCSVRG(friction=1.0),
]  # fmt: skip
RUN = [
    SGDM(friction=0.5), PSGLD(lam=1e-6), PSGLD(decay=0.9, lam=10.0, gamma=True), ASGLD(a=1000.0),
    ASGLD(a=10.0, lam=0.1),
    HMC(resample=False), SGHMC(friction=0.0), SGHMC(friction=0.5, gradient_variance=0.5),
    BAOAB(friction=0.5), BAOAB(friction=1.0), SamAdams(least=0.01), MSGLDCorrected(a=10.0),
    AdamaxSGLD(a=10.0, lam=1.0), AdadeltaSGLD(a=10.0, rho=0.9),
    PMSGLD(a=5.0, beta1=0.99, decay=0.9, lam=0.1), SGFS(b=10.0), SQNLMC(memory=3, b=3.0),
    SGLDSVRG(period=7), SGHMCSVRG(friction=0.5, period=3),
]  # fmt: skip
SIMULATED = [SGNHT(a=0.1), RESGLD(ratio=10.0, rate=0.5), RelativisticSGHMC(mass=2.0, friction=2.0)]


def one_of_each(samplers):
    """Cases of a test: the first setting of each sampler, and the others as slow."""
    first = {type(sampler): sampler for sampler in reversed(samplers)}
    return [
        pytest.param(sampler, marks=[] if sampler is first[type(sampler)] else pytest.mark.slow, id=repr(sampler))
        for sampler in samplers
    ]


def broken(sampler, laws):
    (results,) = check_samplers([sampler], laws)
    assert any(result.outcome == "passed" for result in results)
    return [result for result in results if result.outcome == "failed"]


@pytest.mark.parametrize("sampler", one_of_each(SETTINGS))
def test_the_quick_laws_are_kept(sampler):
    assert broken(sampler, QUICK) == []


@pytest.mark.parametrize("sampler", [PSGLD(gamma=True, lam=0.1), *SETTINGS[:7], *RUN, *SIMULATED], ids=repr)
def test_it_stays_finite_also_where_a_gradient_is_zero(sampler):
    assert broken(sampler, ("hyperparameters",)) == []


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sampler", RUN, ids=repr)
def test_the_real_loop_keeps_its_law(sampler):
    assert broken(sampler, ("real-loop",)) == []


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sampler", SIMULATED, ids=repr)
def test_the_simulated_law_is_kept(sampler):
    assert broken(sampler, ("whole-law",)) == []


def at_ends():
    """Every sampler at each end of what a search tries, one setting at a time."""
    for offer in registry().offers("samplers"):
        cls = load(offer.info.target)
        for field in fields(cls):
            for end in field.metadata["tune"].strip("[]").split(",") if field.metadata.get("tune") else ():
                kind = int if "int" in str(field.type) else float
                yield pytest.param(cls, {field.name: kind(float(end))}, id=f"{offer.name}-{field.name}={end.strip()}")


@pytest.mark.parametrize(("cls", "setting"), [*at_ends()])
def test_a_linear_path_has_a_law_at_the_ends_of_what_a_search_tries(cls, setting):
    """A search tries them first; a row at one must not fail its laws because these cannot compute there."""
    for experiment in experiments(frozen(cls(**setting))):
        if isinstance(experiment, LinearPath):
            assert len(experiment.end) == len(experiment.start) == len(experiment.filter[-1].A)
