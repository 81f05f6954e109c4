"""Posteriors of small networks on UCI regression sets, with references in function space."""
