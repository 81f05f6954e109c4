"""Bases by which the code of other libraries becomes a sampler: a plugin says which optimiser or transform it is."""
