"""Bayesian logistic regression on a9a, with its reference moments: a package of its own, for they are its data."""
