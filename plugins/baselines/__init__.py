"""Approximations of a posterior that are no samplers of it, for comparison; plugins.samplers offers them."""
