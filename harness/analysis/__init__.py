"""Pure functions on arrays: diagnostics of draws, statistics over seeds."""
