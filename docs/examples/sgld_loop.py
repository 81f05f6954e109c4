"""Three training loops for `bench temperature`: SGLD, and two that look like it."""

import torch
from torch.nn.functional import mse_loss

prior_precision = 1.0


def add_noise(model, variance):
    with torch.no_grad():
        for p in model.parameters():
            p.add_(variance**0.5 * torch.randn_like(p))


def train(model, data, lr):
    """SGLD: the summed loss, a prior, and noise of variance 2 lr."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=prior_precision)
    while True:
        for x, y in data:
            optimiser.zero_grad()
            loss = len(data.dataset) * mse_loss(model(x), y) / 2
            loss.backward()
            optimiser.step()
            add_noise(model, 2 * lr)
            yield


def train_mean(model, data, lr):
    """The loss is a mean over rows, as in every tutorial."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=prior_precision / len(data.dataset))
    while True:
        for x, y in data:
            optimiser.zero_grad()
            loss = mse_loss(model(x), y) / 2
            loss.backward()
            optimiser.step()
            add_noise(model, 2 * lr)
            yield


def train_adam(model, data, lr):
    """Adam with the noise of SGLD."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    while True:
        for x, y in data:
            optimiser.zero_grad()
            loss = len(data.dataset) * mse_loss(model(x), y) / 2
            loss.backward()
            optimiser.step()
            add_noise(model, 2 * lr)
            yield
