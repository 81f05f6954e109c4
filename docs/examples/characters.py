"""A small transformer that predicts each next character of a text: labels (n, positions)."""

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_iris, load_wine
from torch import nn

text = "".join(load().DESCR.lower() for load in (load_iris, load_wine, load_diabetes))
letters, tokens = np.unique([*text], return_inverse=True)
windows = np.lib.stride_tricks.sliding_window_view(tokens, 33)[::16]
train, test = ((part[:, :-1], part[:, 1:]) for part in (windows[:-60], windows[-60:]))
likelihood, batch = "token", 32


class Causal(nn.TransformerEncoderLayer):
    """Attention to the characters before, whose positions are from -1 to 1."""

    def forward(self, x):
        mask = torch.triu(torch.full((32, 32), -torch.inf), 1)
        return super().forward(x + torch.linspace(-1, 1, 32)[:, None], mask)


layer = Causal(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
model = nn.Sequential(nn.Embedding(len(letters), 32), layer, nn.Linear(32, len(letters)))
