"""Parameter expansion: the product of each layer, its prior, and the function at the start."""

import pytest
import torch
from torch import nn

from plugins.checking.task_laws import TASK_LAWS
from tasks.networks.expansion import expanded
from tasks.vision.cnn import DigitsCNN
from tasks.vision.expanded import DigitsCNNExpanded


@pytest.mark.parametrize("layer", [nn.Linear(3, 4), nn.Conv2d(3, 4, 2), nn.Conv1d(3, 4, 2)])
def test_a_weight_is_the_product_of_three(layer):
    layer = expanded(layer.double())
    product = layer.parametrizations.weight[0]
    with torch.no_grad():
        product.P.copy_(torch.randn(4, 4, dtype=torch.float64))
        product.Q.copy_(torch.randn(3, 3, dtype=torch.float64))
    V = layer.parametrizations.weight.original
    by_hand = torch.stack([
        torch.stack([sum(product.P[o, a] * V[a, b] * product.Q[b, i] for a in range(4) for b in range(3))
                     for i in range(3)])
        for o in range(4)
    ])  # fmt: skip
    torch.testing.assert_close(layer.weight, by_hand)


def test_other_layers_stay_as_they_are():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.ReLU())
    names = {name for name, _ in expanded(module).named_parameters()}
    assert names == {"0.weight", "0.bias", "1.bias"} | {
        f"1.parametrizations.weight.{name}" for name in ("original", "0.P", "0.Q")
    }


def test_the_function_is_the_same_at_the_start_and_the_prior_has_two_precisions():
    plain, px = DigitsCNN(), DigitsCNNExpanded(prior_precision=3.0, expansion_precision=0.5)
    networks = plain.network(), px.network()
    starts = [network.start(torch.Generator().manual_seed(7)) for network in networks]
    x = torch.randn(4, 1, 8, 8)
    outputs = [
        network.forward(start, network.first_statistics(), x, training=False)
        for network, start in zip(networks, starts, strict=True)
    ]
    torch.testing.assert_close(*outputs)
    theta = torch.randn(2, px.dim(), dtype=torch.float64, requires_grad=True)
    energy = sum(
        (0.5 if name.endswith((".0.P", ".0.Q")) else 3.0) / 2 * part.flatten(1).square().sum(1)
        for name, part in px.layout().split(theta).items()
    )
    torch.testing.assert_close(px.log_prior(theta), -energy)
    (gradient,) = torch.autograd.grad(energy.sum(), theta)
    torch.testing.assert_close(px.prior_gradient(theta.detach()), gradient)
    size = sum(n * n for n in (1, 16, 16, 32, 128, 112, 112, 10))
    assert px.dim() == plain.dim() + size


LAWS = dict(TASK_LAWS)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "law", ["gradient is that of the energy", "prior counted once", "batch sizes agree", "chains do not interact"]
)
def test_the_laws_hold(law):
    """The others are those of `digits-cnn`, whose batches and observer it has."""
    LAWS[law](DigitsCNNExpanded().for_laws())


def test_a_second_prior_is_found(monkeypatch):
    monkeypatch.setattr(DigitsCNNExpanded, "log_prior", lambda _, theta: -3.5 * theta.square().sum(1))
    with pytest.raises(AssertionError, match="prior"):
        LAWS["prior counted once"](DigitsCNNExpanded().for_laws())
