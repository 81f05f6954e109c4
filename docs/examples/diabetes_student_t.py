"""Progress of diabetes after a year by a small network, with errors that follow a Student t distribution."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale
from torch import distributions, nn

table = scale(np.column_stack(load_diabetes(return_X_y=True))).astype(np.float32)
rows, test_rows = train_test_split(table, test_size=0.2, random_state=0)
train, test = (rows[:, :-1], rows[:, -1]), (test_rows[:, :-1], test_rows[:, -1])
model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))


def likelihood(outputs, y):
    return distributions.StudentT(4.0, outputs[:, 0], 0.6).log_prob(y)


def rmse(mean, y):
    return np.sqrt(np.mean((mean[:, 0] - y) ** 2))


metrics = {"rmse": (rmse, "min")}
