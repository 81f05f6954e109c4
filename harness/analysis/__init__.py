"""Pure functions on arrays: diagnostics of draws, statistics over seeds, conventions of step sizes."""
