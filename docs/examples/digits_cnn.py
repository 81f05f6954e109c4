"""A convolutional network with batch normalisation on 8 x 8 images of digits, and noise as unseen images."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

images, digits = load_digits(return_X_y=True)
x = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
train_x, test_x, train_y, test_y = train_test_split(x, digits, test_size=0.2, random_state=0)
train, test = (train_x, train_y), (test_x, test_y)
unseen = {"noise": np.random.default_rng(0).random((300, 1, 8, 8), dtype=np.float32)}


def worst_recall(mean, y):
    return min((mean.argmax(1) == k)[y == k].mean() for k in range(10))


metrics = {"worst_recall": worst_recall}
layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
layers += [nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10))
