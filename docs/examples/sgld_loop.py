"""Three training loops for `bench temperature`: SGLD, and two that look like it."""

import torch
from torch.nn.functional import mse_loss

prior_precision = 1.0


def train(model, data, lr):
    """SGLD: the summed loss, a prior, and noise of variance 2 lr."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=prior_precision)
    yield from steps(model, data, optimiser, len(data.dataset) / 2, 2 * lr)


def train_mean(model, data, lr):
    """The loss is a mean over rows, as in every tutorial."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=prior_precision / len(data.dataset))
    yield from steps(model, data, optimiser, 1 / 2, 2 * lr)


def train_adam(model, data, lr):
    """Adam with the noise of SGLD."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    yield from steps(model, data, optimiser, len(data.dataset) / 2, 2 * lr)


def steps(model, data, optimiser, factor, variance):
    """Steps on `factor` times the mean squared error, each followed by noise of a variance."""
    while True:
        for x, y in data:
            optimiser.zero_grad()
            (factor * mse_loss(model(x), y)).backward()
            optimiser.step()
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(variance**0.5 * torch.randn_like(p))
            yield
