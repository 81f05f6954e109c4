"""What is known about a target: its moments along fixed directions, and how they were obtained."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis import diagnostics
from harness.system.errors import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVELS = 40
"""Number of quantiles for each direction: steps of 2.5 % in its distribution function."""


@dataclass(frozen=True, eq=False)
class Truth:
    """The moments of the target at T = 1, with the Monte Carlo error of mean and sd (0 if exact).

    mean, covariance      (D,) and (D, D)
    z3, z4                (K,): E z^3 and E z^4 of z = (v x - E v x) / sd(v x) along each of the K `directions` v, of
                          which the first D are the coordinate axes
    mean_mcse, sd_mcse    (D,)
    how                   how they were obtained, with the command that does it
    quantiles             (K, m): those of v x at the levels (j - 1/2) / m, if known
    checksum              SHA-256 of the record that `bench truth` stored; "" for any other truth

    `Truth.normal` and `Truth.of_points` compute these for a Gaussian, and from weighted points or draws.
    """

    mean: Array
    covariance: Array
    z3: Array
    z4: Array
    mean_mcse: Array
    sd_mcse: Array
    how: str
    quantiles: Array | None = None
    checksum: str = ""

    def __post_init__(self) -> None:
        import numpy as np

        dim, here = len(self.mean), "the truth of a task"
        require(np.shape(self.covariance) == (dim, dim), here, f"its covariance is not of shape ({dim}, {dim})")
        definite = np.allclose(self.covariance, self.covariance.T) and np.linalg.eigvalsh(self.covariance).min() > 0
        require(bool(definite), here, "its covariance is not symmetric and positive definite")
        count = len(self.directions)
        for name in ("z3", "z4"):
            require(np.shape(getattr(self, name)) == (count,), here, f"{name} is not of shape ({count},): directions")

    @classmethod
    def normal(cls, mean: Array, covariance: Array, how: str = "closed form") -> Truth:
        """Return the exact moments of the Gaussian N(mean, covariance)."""
        import numpy as np
        from scipy.special import ndtri

        along, zero = diagnostics.directions(covariance), np.zeros(len(mean))
        sd = np.sqrt(((along @ covariance) * along).sum(axis=1))
        third = np.zeros(len(along))
        return cls(
            mean,
            covariance,
            third,
            third + 3,
            zero,
            zero,
            how,
            (along @ mean)[:, None] + sd[:, None] * ndtri(quantile_levels()),
        )

    @classmethod
    def of_points(cls, points: Array, shares: Array | None = None, how: str = "", **known: Any) -> Truth:
        """Return the moments of points (n, D) with shares (n,), equal by default: a quadrature's points, or draws.

        `known` may contain mean_mcse and sd_mcse, which are 0 without it, and quantiles.
        """
        import numpy as np

        share = np.full(len(points), 1 / len(points)) if shares is None else shares / shares.sum()
        mean = share @ points
        centred = points - mean
        covariance = (centred * share[:, None]).T @ centred
        third, fourth = [], []
        for direction in diagnostics.directions(covariance):
            along = centred @ direction
            z = along / np.sqrt(share @ along**2)
            third.append(share @ z**3)
            fourth.append(share @ z**4)
        zero = np.zeros(len(mean))
        moments = {"mean_mcse": zero, "sd_mcse": zero, **known}
        return cls(mean, covariance, np.array(third), np.array(fourth), how=how, **moments)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Truth:
        """Return the truth in a stored record of long HMC: moments, the covariance's lower triangle, and its source."""
        import numpy as np

        lower = np.zeros((len(record["mean"]),) * 2)
        lower[np.tril_indices(len(lower))] = np.concatenate(record["covariance"])
        where = record["sampler"].get("coordinates")
        how = (
            f"HMC{f' in coordinates {where}' if where else ''}, {record['chains']} chains of {record['draws']} draws: "
            f"R-hat {record['rhat']:.4f}, ESS {record['ess_z']:.0f} (z) and {record['ess_z2']:.0f} (z^2) or more along "
            f"every direction, acceptance {record['acceptance']:.2f}; {record['command']}"
        )
        names = ("mean", "z3", "z4", "mean_mcse", "sd_mcse", "quantiles")
        moments = {name: np.array(record[name]) for name in names if name in record}
        stored = record.get("sha256", "")
        return cls(covariance=lower + np.tril(lower, -1).T, how=how, checksum=stored, **moments)

    @property
    def sd(self) -> Array:
        """The standard deviation of each coordinate, (D,)."""
        import numpy as np

        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @functools.cached_property
    def directions(self) -> Array:
        """The unit vectors (K, D) along which samplers are judged."""
        return diagnostics.directions(self.covariance)


def quantile_levels() -> Array:
    """Return the levels of a truth's quantiles: (j - 1/2) / 40, j = 1 ... 40."""
    import numpy as np

    return (np.arange(LEVELS) + 0.5) / LEVELS
