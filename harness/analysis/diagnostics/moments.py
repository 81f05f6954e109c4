"""The true distribution as the diagnostics need it: four moments per coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and sd of each coordinate x, and E z^3, E z^4 of z = (x - mean) / sd. Each of shape (D,).

    All that the diagnostics need of z, z^2, x and x^2 follows from these. Raises ValueError unless the shapes agree,
    all entries are finite, sd > 0 and z4 > 1 (z4 = 1 means that z^2 is constant, so an error in it has no scale).
    """

    mean: Array
    sd: Array
    z3: Array
    z4: Array

    def __post_init__(self) -> None:
        for name in ("mean", "sd", "z3", "z4"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or value.shape != np.shape(self.mean):
                raise ValueError(f"{name} must have shape (D,) like mean, got {value.shape}")
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite, got {value}")
            object.__setattr__(self, name, value)
        if (self.sd <= 0).any():
            raise ValueError(f"sd must be positive, got {self.sd}")
        if (self.z4 <= 1).any():
            raise ValueError(f"z4 = E z^4 must exceed 1, got {self.z4}")

    @classmethod
    def gaussian(cls, mean: ArrayLike, sd: ArrayLike) -> Moments:
        """Return the moments of Gaussian marginals: z3 = 0, z4 = 3."""
        centre = np.asarray(mean, dtype=np.float64)
        return cls(centre, np.asarray(sd, dtype=np.float64), np.zeros_like(centre), np.full_like(centre, 3.0))

    @classmethod
    def from_draws(cls, draws: ArrayLike) -> Moments:
        """Return the moments of reference draws (n, D), all with divisor n, so that E z = 0 and E z^2 = 1."""
        x = np.asarray(draws, dtype=np.float64)
        mean, sd = x.mean(axis=0), x.std(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (x - mean) / sd
        return cls(mean, sd, (z**3).mean(axis=0), (z**4).mean(axis=0))

    @property
    def dim(self) -> int:
        """Number of coordinates, D."""
        return len(self.mean)

    @property
    def var_z2(self) -> Array:
        """Var(z^2) = z4 - 1."""
        return self.z4 - 1.0

    @property
    def var_x2(self) -> Array:
        """Var(x^2) = 4 mean^2 sd^2 + 4 mean sd^3 z3 + sd^4 (z4 - 1), from x = mean + sd z."""
        return 4 * self.mean**2 * self.sd**2 + 4 * self.mean * self.sd**3 * self.z3 + self.sd**4 * self.var_z2
