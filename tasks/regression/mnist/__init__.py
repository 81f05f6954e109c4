"""Softmax regression on MNIST, with its principal components."""
