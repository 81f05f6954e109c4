"""All planted bugs."""

from planted import BUGS, KINDS, Bug, hidden, langevin, momentum, nonlinear, outside

__all__ = ["BUGS", "KINDS", "Bug", "hidden", "langevin", "momentum", "nonlinear", "outside"]

BUGS.sort(key=lambda bug: bug.sampler.__module__)  # in one order, whichever module a test imported first
