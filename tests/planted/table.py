"""All planted bugs."""

from planted import BUGS, KINDS, Bug, hidden, langevin, momentum, nonlinear, outside

__all__ = ["BUGS", "KINDS", "Bug", "hidden", "langevin", "momentum", "nonlinear", "outside"]
