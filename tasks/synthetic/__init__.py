"""Densities that are known in closed form."""
