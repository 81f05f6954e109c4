"""The batched network against torch's own modules and automatic differentiation."""

import pytest
import torch

from tasks.mlp import MLP

SIZES = (7, 5, 6, 3)


def weights(chains, dtype=torch.float64, net=None):
    net = net or MLP(SIZES)
    rows = [net.start(torch.Generator().manual_seed(c)) for c in range(chains)]
    theta = torch.stack(rows).to(dtype)
    return theta + 0.1 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(99), dtype=dtype)


def module(row):
    """torch's network with the weights of one chain."""
    layers = []
    for (w, b), last in zip(MLP(SIZES).layers(row[None]), (False, False, True), strict=True):
        linear = torch.nn.Linear(w.shape[2], w.shape[1], dtype=row.dtype)
        linear.weight.data, linear.bias.data = w[0], b[0, 0]
        layers += [linear] if last else [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def test_the_number_of_weights():
    assert MLP(SIZES).dim == 7 * 5 + 5 + 5 * 6 + 6 + 6 * 3 + 3
    assert MLP((784, 800, 800, 10)).dim == 1_276_810


def test_logits_are_those_of_torch_chain_by_chain():
    theta = weights(3)
    x = torch.randn(3, 11, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits, shared = MLP(SIZES).logits(theta, x), MLP(SIZES).logits(theta, x[0])
    for c in range(3):
        assert torch.allclose(logits[c], module(theta[c])(x[c]), rtol=1e-13)
        assert torch.allclose(shared[c], module(theta[c])(x[0]), rtol=1e-13)


def test_the_pullback_is_the_gradient():
    theta = weights(3).requires_grad_()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 11, 7, generator=generator, dtype=torch.float64)
    delta = torch.randn(3, 11, 3, generator=generator, dtype=torch.float64)
    logits, pullback = MLP(SIZES).logits_and_pullback(theta, x)
    (expected,) = torch.autograd.grad((logits * delta).sum(), theta)
    with torch.no_grad():
        assert torch.allclose(pullback(delta), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sizes", [(36, 30, 30, 6), (784, 20, 10)])
def test_a_chain_has_the_same_bits_alone_and_among_others(sizes):
    net = MLP(sizes)
    theta = weights(5, torch.float32, net)
    x = torch.rand(5, 50, sizes[0], generator=torch.Generator().manual_seed(1))
    logits, pullback = net.logits_and_pullback(theta, x)
    gradient = pullback(logits.softmax(-1))
    for rows in (slice(0, 1), slice(2, 3), slice(1, 3), slice(0, 4)):
        alone, back = net.logits_and_pullback(theta[rows], x[rows])
        assert torch.equal(alone, logits[rows])
        assert torch.equal(back(alone.softmax(-1)), gradient[rows])
