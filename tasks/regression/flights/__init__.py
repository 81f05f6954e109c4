"""Bayesian logistic regression on flights, with its reference moments: a package of its own, for they are its data."""
