"""Errors between two draws, against a module of torch that is put together by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from generated import SMALL, Exact

from harness.contracts.randomness import Streams
from reports.figures import interpolation
from tasks.networks.resnet import ResNet18


def problem(normalisation):
    made = Exact(**{**SMALL, "normalisation": normalisation, "prior_precision": 3.0})
    return made, made.build([Streams(0, 0, ("test",))], "cpu")


def module(made, theta):
    plain = ResNet18(10, made.width, made.normalisation).to(torch.float64)
    plain.load_state_dict(made.network().weights(theta), strict=False)
    return plain


def ends(own):
    first = own.initial()[0]
    return torch.stack([first, first + 0.1 * torch.randn(first.shape, generator=torch.Generator().manual_seed(1))])


def test_statistics_are_the_plain_average_over_batches_of_torch(monkeypatch):
    monkeypatch.setattr(interpolation, "BATCHES", 3)
    made, own = problem("batch")
    both = ends(own)
    old = torch.stack([own.buffers[0] + 0.5, own.buffers[0] + 1.5])
    found = interpolation.errors_on_line(own, both, old, [0.25])
    assert set(found) == {"as they are", "recomputed"}

    plain = module(made, torch.lerp(both[0], both[1], 0.25))
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
    expected = torch.cat([named[name].reshape(-1) for name in made.network().buffer_shapes])
    torch.testing.assert_close(own.buffers[0], expected.to(own.buffers))
    images, labels = map(torch.from_numpy, made.images("test"))
    with torch.no_grad():
        predicted = plain.eval()(made.inputs(images)).argmax(1)
    assert found["recomputed"][0] == pytest.approx(100 * (predicted != labels).double().mean().item())
    momenta = {m.momentum for m in own.network.module.modules() if isinstance(m, torch.nn.BatchNorm2d)}
    assert momenta == {0.1}


def test_without_running_statistics_there_is_one_line_and_its_ends_are_the_draws():
    made, own = problem("group")
    both = ends(own)
    found = interpolation.errors_on_line(own, both, own.buffers[:1].expand(2, -1), [0.0, 0.5, 1.0])
    assert list(found) == ["as they are"]
    images, labels = map(torch.from_numpy, made.images("test"))
    for place, theta in ((0, both[0]), (2, both[1])):
        with torch.no_grad():
            predicted = module(made, theta).eval()(made.inputs(images)).argmax(1)
        assert found["as they are"][place] == pytest.approx(100 * (predicted != labels).double().mean().item())
    assert np.isfinite(found["as they are"]).all()
