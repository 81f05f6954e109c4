"""The Gauss-Newton matrix of networks, against its definition and against laplace-torch 0.3."""

import itertools
from dataclasses import dataclass

import pytest
import torch
from laplace_torch import CLASSES, PRIOR, Images, Small, built, module_of, of_laplace_torch, precisions
from scipy import stats
from support import make_loop

from harness import Sampler
from harness.system.errors import PluginError, UsageError
from harness.tasks import Network
from plugins.baselines.laplace import Laplace
from plugins.baselines.last_layer_laplace import LastLayerLaplace
from plugins.schedules.constant import Constant
from tasks.gauss_newton import factors, softmax_roots
from tasks.mlp import MLP


def by_definition(problem, theta):
    """sum_n J_n' (diag(p) - p p') J_n, with J by automatic differentiation."""
    x = problem.arrays["x"]
    network = module_of(problem)

    def outputs(weights):
        return network.forward(weights, torch.empty(0), x, training=False)

    J = torch.func.jacrev(outputs)(theta[0])
    p = outputs(theta[0]).softmax(1).detach()
    return torch.einsum("nkd,nkl,nle->de", J, p.diag_embed() - p[:, :, None] * p[:, None], J)


@pytest.mark.parametrize("task", [Small, Images])
def test_the_full_matrix_is_its_definition(task):
    problem, theta = built(task)
    blocks, prior = problem.gauss_newton(theta, last_layer=False, full=True)
    expected = by_definition(problem, theta)
    assert prior == PRIOR
    assert torch.allclose(blocks[0][0][0], expected, rtol=1e-10, atol=1e-12)
    (start,) = (last := problem.gauss_newton(theta, last_layer=True, full=True)[0])
    assert torch.allclose(last[start][0][0], expected[start:, start:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("task", [Small, Images])
def test_chains_and_portions_change_nothing(task):
    problem, theta = built(task)
    alone = problem.gauss_newton(theta, last_layer=False, full=False)[0]
    problem.buffers = problem.buffers.repeat(3, 1)
    together = problem.gauss_newton(torch.cat([0 * theta, theta, theta + 1]), last_layer=False, full=False)[0]
    for start, parts in alone.items():
        assert all(torch.equal(one[0], many[1]) for one, many in zip(parts, together[start], strict=True))
    x = problem.arrays["x"]
    pieces = factors(
        module_of(problem), theta[0], problem.buffers[0], x.split(7), softmax_roots, last_layer=False, full=False
    )
    for start, parts in alone.items():
        assert all(torch.allclose(one[0], piece) for one, piece in zip(parts, pieces[start], strict=True))


def test_the_module_of_an_mlp_has_its_outputs():
    network = MLP([4, 6, 5, 2])
    theta, x = torch.randn(1, network.dim), torch.randn(7, 4)
    out = network.module_network.forward(theta[0], torch.empty(0), x, training=False)
    assert torch.allclose(out, network.logits(theta, x)[0], atol=1e-6)
    assert [b.shape for b in network.module_network.layout.blocks] == [b.shape for b in network.layout.blocks]


def test_kronecker_factors_of_rows_that_are_alike_are_the_full_matrix():
    """The mean over the rows of a product is the product of the means where all inputs are equal."""
    from torch import nn

    network = Network(lambda: nn.Sequential(nn.Linear(3, 2, bias=False)))
    given = network, torch.randn(6), torch.empty(0), [torch.randn(1, 3).expand(7, 3)], softmax_roots
    ((outer, inner),) = factors(*given, last_layer=False, full=False).values()
    ((full,),) = factors(*given, last_layer=False, full=True).values()
    assert torch.allclose(torch.kron(outer, inner), full, rtol=1e-5)


def test_normalisation_is_not_drawn_and_has_no_full_matrix():
    from torch import nn

    network = Network(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2)))
    weights, statistics = network.start(torch.Generator()), network.first_statistics()
    given = network, weights, statistics, [torch.randn(6, 1, 4, 4)], softmax_roots
    starts = list(itertools.accumulate((b.size for b in network.layout.blocks), initial=0))
    assert list(factors(*given, last_layer=False, full=False)) == [*starts[:2], *starts[4:6]]
    assert list(factors(*given, last_layer=True, full=True)) == [starts[4]]
    with pytest.raises(UsageError, match=r"structure=kron"):
        factors(*given, last_layer=False, full=True)


def test_a_layer_that_is_used_twice_is_refused():
    from torch import nn

    layer = nn.Linear(3, 3)
    network = Network(lambda: nn.Sequential(layer, layer))
    with pytest.raises(PluginError, match="used twice"):
        factors(
            network, torch.zeros(network.dim), torch.empty(0), [torch.ones(2, 3)], softmax_roots,
            last_layer=False, full=False,
        )  # fmt: skip


@pytest.mark.parametrize("task", [Small, Images])
@pytest.mark.parametrize("sampler", [Laplace, LastLayerLaplace])
@pytest.mark.parametrize("structure", ["kron", "full"])
def test_the_precision_is_that_of_laplace_torch(task, sampler, structure):
    theirs, ours = (precisions(task, sampler, structure, library=library) for library in (True, False))
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * float(theirs.diag().mean()))
    assert torch.allclose(torch.linalg.inv(ours).diag(), torch.linalg.inv(theirs).diag(), rtol=1e-4)


@dataclass(frozen=True, kw_only=True)
class OnTheBatch(Sampler):
    """Planted: it asks for the matrix in a step, of the potential of a minibatch."""

    needs = frozenset({"gauss_newton"})

    def step(self, theta, state, potential, h, T, noise):
        potential.gauss_newton(theta, last_layer=False, full=False)
        return theta - h * potential.grad(theta), state


@dataclass(frozen=True, kw_only=True)
class Undeclared(OnTheBatch):
    needs = frozenset()


def test_the_matrix_costs_a_data_pass_for_each_output():
    loop = make_loop(Small(), Laplace(every=10), Constant(step_size=1e-3), 20, chains=1)
    assert loop.stage.cost.at_start == CLASSES
    assert loop.stage.cost.per_step == pytest.approx(1 + CLASSES / 10)
    for planted, said in ((OnTheBatch, r"makes \(1, 1\) calls"), (Undeclared, "add 'gauss_newton' to `needs`")):
        with pytest.raises(PluginError, match=said):
            make_loop(Small(), planted(), Constant(step_size=1e-3), 20, chains=1)


class Flat:
    """A potential without a slope, and random numbers for all chains at once."""

    def grad(self, x):
        return 0 * x

    def normal(self, like):
        return torch.randn(like.shape, generator=torch.Generator().manual_seed(3), dtype=like.dtype)


@pytest.mark.statistical
@pytest.mark.parametrize("structure", ["kron", "full"])
def test_the_predictive_by_sampling_is_that_of_laplace_torch(structure):
    """Means of the probabilities over draws of both, by Welch tests over all rows and classes, level 1e-3 in total."""
    draws, sampler = 2000, Laplace(structure=structure)
    loop = make_loop(Small(), sampler, Constant(step_size=1e-12), 1, chains=1)
    problem = loop.problem
    fit = of_laplace_torch(problem, loop.theta, "all", structure)
    one = torch.ones((), dtype=torch.float64)
    state = {name: leaf.expand(draws, *leaf.shape[1:]) for name, leaf in loop.stage.state.items()}
    ours, _ = sampler.step(loop.theta.expand(draws, -1), state, Flat(), one, one, Flat())
    theirs = fit.sample(draws, generator=torch.Generator().manual_seed(4)).double()
    predicted = [
        problem.network.logits(w, problem.arrays["x"]).softmax(2)[..., 1:].flatten(1).numpy() for w in (ours, theirs)
    ]
    p = stats.ttest_ind(*predicted, equal_var=False).pvalue
    assert p.min() > 1e-3 / p.size
