"""All planted bugs."""

from planted import BUGS, KINDS, Bug, langevin, momentum, nonlinear, outside

__all__ = ["BUGS", "KINDS", "Bug", "langevin", "momentum", "nonlinear", "outside"]
