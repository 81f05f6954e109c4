"""Each planted bug breaks the law that is there for it; the sound task beside it keeps them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from planted import maker

from harness import param
from harness.contracts.task import Problem
from harness.tasks import DataProblem, Network, NetworkProblem, NetworkTask
from plugins.checking import task_laws as laws
from plugins.checking.law import Skip
from tasks.datasets import uci
from tasks.regression.blr import LogisticTask, laplace
from tasks.synthetic.mixture import MixtureProblem
from tasks.synthetic.mixture5 import Mixture5
from tasks.synthetic.observer import MixtureObserver

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass(frozen=True, kw_only=True)
class Small(LogisticTask):
    """Logistic regression on made-up rows."""

    file: ClassVar = uci.HEART
    positive: ClassVar = 1
    shape: ClassVar = (53, 4)
    problem: ClassVar = DataProblem

    def design(self):
        return np.random.default_rng(0).standard_normal(self.shape)

    def curvature(self):
        return float(laplace(self.design()).eigenvalues[-1])

    def build(self, streams, device):
        return self.problem(self, streams, device)


def small(problem):
    return type("Planted", (Small,), {"problem": problem})()


planted = maker(globals())
TermsOverBatch = planted("TermsOverBatch", DataProblem,
    scale="1 if batch is None else self.terms / self.task.batch_terms()")  # fmt: skip
ScaledPrior = planted("ScaledPrior", DataProblem,
    energy="energy if batch is None else energy - (self.batches - 1) * self.task.log_prior(theta)",
    gradient="gradient if batch is None else gradient + (self.batches - 1) * theta")  # fmt: skip
PriorTwice = planted(
    "PriorTwice",
    DataProblem,
    energy="energy - self.task.log_prior(theta)",
    gradient="gradient + self.task.prior_gradient(theta)",
)
FixedPriorBeside = planted("FixedPriorBeside", DataProblem,
    energy="energy + theta.square().sum(1) / 2", gradient="gradient + theta")  # fmt: skip
NotAPartition = planted(
    "NotAPartition",
    DataProblem,
    draw_batches="{name: torch.where(leaf == 3, 4, leaf) for name, leaf in draw_batches.items()}",
)
WrongGradient = planted("WrongGradient", DataProblem, gradient="gradient - theta / 2")
ScaledByEpochs = planted("ScaledByEpochs", DataProblem, scale="self.batches if batch else 1")
ForgetsTheWayBack = planted("ForgetsTheWayBack", DataProblem,
    load="super().load({**state, 'place': state['place'] % self.batches})")  # fmt: skip
ForgetsPlace = planted("ForgetsPlace", DataProblem,
    load="super().load({**state, 'place': torch.zeros_like(state['place'])})")  # fmt: skip
MixesChains = planted("MixesChains", DataProblem, gradient="gradient + 0 * theta.mean(0)")


@pytest.mark.parametrize(
    ("problem", "law"),
    [
        (TermsOverBatch, laws.law_mean_of_batches),
        (TermsOverBatch, laws.law_batch_sizes_agree),
        (ScaledPrior, laws.law_mean_of_batches),
        (ScaledPrior, laws.law_prior_counted_once),
        (PriorTwice, laws.law_prior_counted_once),
        (FixedPriorBeside, laws.law_prior_counted_once),
        (NotAPartition, laws.law_mean_of_batches),
        (WrongGradient, laws.law_gradient_is_that_of_the_energy),
        (ScaledByEpochs, laws.law_mean_of_batches),
        (ForgetsTheWayBack, laws.law_state_restores_the_batches),
        (ForgetsPlace, laws.law_state_restores_the_batches),
        (MixesChains, laws.law_chains_do_not_interact),
    ],
)
def test_a_bug_in_a_minibatch_potential_is_caught(problem, law):
    law(small(DataProblem))
    with pytest.raises(AssertionError, match="usual cause"):
        law(small(problem))


class NetworkWithTwoPriors(NetworkProblem):
    """A network's likelihood grows far out: that its own prior is there once says nothing of another one."""

    def energy(self, theta, batch):
        return super().energy(theta, batch) + 2 * theta.square().sum(1)


@dataclass(frozen=True, kw_only=True)
class SmallNetwork(NetworkTask):
    """Classes of made-up rows by a module."""

    protocols: ClassVar = ()
    dtype: ClassVar = "float64"
    batch: int = param(8, "[1, inf)", "rows in a minibatch", source="ours")
    prior_precision: float = param(3.0, "[0, inf)", "of all weights", source="ours")
    problem: ClassVar = NetworkProblem

    def network(self):
        return Network(lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))

    def arrays(self, part):
        x = np.random.default_rng(0).standard_normal((21, 3))
        return {"x": x, "label": (x[:, 0] > 0).astype(int)}

    def build(self, streams, device):
        return self.problem(self, streams, device)


def test_a_second_prior_of_a_network_is_seen_though_it_does_not_go_by_the_setting():
    laws.law_prior_counted_once(SmallNetwork())
    with pytest.raises(AssertionError, match="a second prior"):
        laws.law_prior_counted_once(type("Planted", (SmallNetwork,), {"problem": NetworkWithTwoPriors})())


OneStreamForAll = planted("OneStreamForAll", DataProblem,
    __init__="super().__init__(task, [streams[0]] * len(streams), device)")  # fmt: skip
StartsWithoutItsSeed = planted("StartsWithoutItsSeed", DataProblem,
    initial="torch.randn((len(self.streams), self.dim), generator=torch.Generator().manual_seed(0)).double()"
)  # fmt: skip
BatchOfAnotherChain = planted("BatchOfAnotherChain", DataProblem,
    draw_batches="{name: leaf.roll(1, dims=1) for name, leaf in draw_batches.items()}")  # fmt: skip
StartOfAllSeeds = planted("StartOfAllSeeds", DataProblem,
    initial="rows = [torch.randn(self.dim, generator=torch.Generator().manual_seed(s.chain)) for s in self.streams]; "
    "torch.stack(rows).double()")  # fmt: skip


@pytest.mark.parametrize("problem", [OneStreamForAll, StartsWithoutItsSeed, BatchOfAnotherChain, StartOfAllSeeds])
def test_a_stream_that_is_not_the_chain_s_own_is_caught(problem):
    laws.law_chains_have_their_own_streams(small(DataProblem))
    with pytest.raises(AssertionError, match="usual cause"):
        laws.law_chains_have_their_own_streams(small(problem))


SlantedNoise = planted("SlantedNoise", MixtureProblem,
    draw_batches="{name: leaf + 0.1 for name, leaf in draw_batches.items()}")  # fmt: skip
BlockIsADraw = planted("BlockIsADraw", MixtureObserver, observe="super().observe(draws[-1:], weights[-1:], steps[-1:])")
ForgetsTheModes = planted("ForgetsTheModes", MixtureObserver,
    load="fresh = self.modes.state(); super().load(state); self.modes.load(fresh)")  # fmt: skip
WeightsLeftAside = planted("WeightsLeftAside", MixtureObserver,
    observe="super().observe(draws, weights.new_ones(weights.shape), steps)")  # fmt: skip
WeightsAsTheyCome = planted("WeightsAsTheyCome", MixtureObserver, observe="super().observe(draws, weights + 1, steps)")
WeightsOfTheFirstDraw = planted("WeightsOfTheFirstDraw", MixtureObserver,
    observe="super().observe(draws, weights[:1].expand_as(weights), steps)")  # fmt: skip


class Slanted(Mixture5):
    def build(self, streams, device):
        return SlantedNoise(self, streams, device)


class Observed(Mixture5):
    observer: ClassVar = MixtureObserver

    def build(self, streams, device):
        built = super().build(streams, device)
        chains = len(streams)
        built.observer = lambda _rows, trajectory, cost: self.observer(self, chains, trajectory, cost)
        return built


def test_noise_with_a_mean_is_caught():
    laws.law_mean_of_batches(Mixture5())
    with pytest.raises(AssertionError, match="noise with a mean"):
        laws.law_mean_of_batches(Slanted())


@pytest.mark.parametrize("observer", [BlockIsADraw, ForgetsTheModes, WeightsOfTheFirstDraw])
def test_an_observer_that_minds_its_blocks_is_caught(observer):
    laws.law_blocks_do_not_matter(Observed())
    with pytest.raises(AssertionError, match="usual cause"):
        laws.law_blocks_do_not_matter(type("Planted", (Observed,), {"observer": observer})())


@pytest.mark.parametrize("observer", [WeightsLeftAside, WeightsAsTheyCome])
def test_an_observer_to_which_weights_mean_nothing_is_caught(observer):
    laws.law_weights_count(Observed())
    with pytest.raises(AssertionError, match="usual cause"):
        laws.law_weights_count(type("Planted", (Observed,), {"observer": observer})())


@pytest.mark.parametrize(
    ("entry", "change", "name"),
    [
        ("mean", lambda mean: mean + 1e-3, "mean"),
        ("covariance", lambda s: 1.001 * s, "sd"),
        ("covariance", lambda s: s * [[1, 0.5], [0.5, 1]], "sd"),  # right marginals, half the correlation
    ],
)
def test_a_truth_that_is_off_by_a_thousandth_or_lacks_a_correlation_is_caught_by_quadrature(entry, change, name):
    class Stated(Mixture5):
        def truth(self):
            exact = super().truth()
            return replace(exact, **{entry: change(getattr(exact, entry))})

    with pytest.raises(AssertionError, match=f"stated {name}"):
        laws.law_truth_by_another_route(Stated())


def test_a_task_without_a_truth_has_none_to_check():
    class Untold(Mixture5):
        def truth(self):
            return None

    with pytest.raises(Skip):
        laws.law_truth_by_another_route(Untold())


class Regression(DataProblem):
    """A likelihood that grows as fast as its prior, whose precision is an attribute of the task's class."""

    def energy(self, theta, batch):
        rows = torch.linspace(-1, 1, 24, dtype=theta.dtype).reshape(6, 4)
        return 1000 * (theta @ rows.T - 1).square().sum(1) + self.task.prior_precision * theta.square().sum(1) / 2

    gradient = Problem.gradient
    energy_and_gradient = Problem.energy_and_gradient

    def draw_batches(self, steps):
        return {}


RegressionPriorTwice = planted("RegressionPriorTwice", Regression,
    energy="energy + self.task.prior_precision * theta.square().sum(1) / 2")  # fmt: skip
RegressionOfItsOwn = planted("RegressionOfItsOwn", Regression,
    energy="energy + (1 - self.task.prior_precision) * theta.square().sum(1) / 2")  # fmt: skip


def test_a_prior_is_told_from_a_likelihood_that_grows_where_its_precision_is_an_attribute_of_the_class():
    laws.law_prior_counted_once(small(Regression))
    with pytest.raises(AssertionError, match="counted 2 times"):
        laws.law_prior_counted_once(small(RegressionPriorTwice))
    with pytest.raises(Skip, match="let U read it from the task"):
        laws.law_prior_counted_once(small(RegressionOfItsOwn))
