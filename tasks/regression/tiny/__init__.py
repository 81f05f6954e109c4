"""A Bayesian network with a truth of its predictions."""
