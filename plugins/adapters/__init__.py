"""Base classes that make samplers of the code of other libraries; a plugin names the optimiser or transform."""
