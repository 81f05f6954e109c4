"""Errors between two draws, against a module of torch that is put together by hand."""

import numpy as np
import pytest
import torch
from generated import SMALL, Exact

from harness.contracts.randomness import Streams
from reports.figures import interpolation
from tasks.networks.resnet import ResNet18


def problem(normalisation):
    cifar = Exact(**{**SMALL, "normalisation": normalisation, "prior_precision": 3.0})
    return cifar, cifar.build([Streams(0, 0, ("test",))], "cpu")


def module(cifar, theta):
    plain = ResNet18(10, cifar.width, cifar.normalisation).to(torch.float64)
    plain.load_state_dict(cifar.network().weights(theta), strict=False)
    return plain


def ends(built):
    first = built.initial()[0]
    return torch.stack([first, first + 0.1 * torch.randn(first.shape, generator=torch.Generator().manual_seed(1))])


def test_statistics_are_the_plain_average_over_batches_of_torch(monkeypatch):
    monkeypatch.setattr(interpolation, "BATCHES", 3)
    cifar, built = problem("batch")
    both = ends(built)
    old = torch.stack([built.buffers[0] + 0.5, built.buffers[0] + 1.5])
    errors = interpolation.errors_on_line(built, both, old, [0.25])
    assert set(errors) == {"as they are", "recomputed"}

    plain = module(cifar, torch.lerp(both[0], both[1], 0.25))
    for layer in plain.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # torch's own cumulative average
    _, again = problem("batch")
    batches = again.draw_batches(3)
    with torch.no_grad():
        for k in range(3):
            ((_, (images, _)),) = again.parts(0, {name: leaf[k] for name, leaf in batches.items()})
            plain(images)
    named = dict(plain.named_buffers())
    expected = torch.cat([named[name].reshape(-1) for name in cifar.network().buffer_shapes])
    torch.testing.assert_close(built.buffers[0], expected.to(built.buffers))
    images, labels = map(torch.from_numpy, cifar.images("test"))
    with torch.no_grad():
        predicted = plain.eval()(cifar.inputs(images)).argmax(1)
    assert errors["recomputed"][0] == pytest.approx(100 * (predicted != labels).double().mean().item())
    momenta = {m.momentum for m in built.network.module.modules() if isinstance(m, torch.nn.BatchNorm2d)}
    assert momenta == {0.1}


def test_without_running_statistics_there_is_one_line_and_its_ends_are_the_draws():
    cifar, built = problem("group")
    both = ends(built)
    errors = interpolation.errors_on_line(built, both, built.buffers[:1].expand(2, -1), [0.0, 0.5, 1.0])
    assert list(errors) == ["as they are"]
    images, labels = map(torch.from_numpy, cifar.images("test"))
    for index, theta in ((0, both[0]), (2, both[1])):
        with torch.no_grad():
            predicted = module(cifar, theta).eval()(cifar.inputs(images)).argmax(1)
        assert errors["as they are"][index] == pytest.approx(100 * (predicted != labels).double().mean().item())
    assert np.isfinite(errors["as they are"]).all()
