"""What is known about a target: its moments along fixed directions, and how they were obtained.

If theta itself has no known truth, long runs say something about functions of it: a `Reference`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis import diagnostics
from harness.system.errors import DataError, require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVELS = 40
"""Number of quantiles for each direction: steps of 2.5 % in its distribution function."""
LARGEST_RHAT, SHARE, LARGEST_ERROR = 1.05, 0.99, 0.1
FARTHEST, ROUND_TRIPS = 4.0, 20
"""Largest difference from parallel tempering, in standard errors, and fewest round trips of replicas for comparing."""
ARRAYS = ("mean", "sd", "z4", "mean_error", "rhat")
TEMPERED = ("mean", "sd", "mean_error", "sd_error", "rhat")
TIERS = {
    "truth": "moments of theta are exact or accepted in every coordinate, or those of predictions agree with tempering",
    "reference": "accepted in function space: moments of the predictions alone",
    "none": "no truth is known",
}
"""How well the target of a task is known."""


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
        quantiles = (along @ mean)[:, None] + sd[:, None] * ndtri(quantile_levels())
        return cls(mean, covariance, third, third + 3, zero, zero, how, quantiles)

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


@dataclass(frozen=True, eq=False)
class Reference:
    """Moments and quantiles of K functions of theta at T = 1, such as predictions, from long runs of many chains.

    mean, sd     (K,)
    z4           (K,), E z^4 of z = (f - mean) / sd
    quantiles    (K, m), at the `levels` (m,)
    mean_error   (K,), standard errors of the means, estimated between chains
    sd_error     (K,), standard errors of the sds, if known
    rhat         (K,), rank-normalised
    how          how they were obtained, with the command
    checksum     SHA-256 of the record that `bench truth` stored; "" for a reference that comes with the task
    tempering    the same moments by parallel tempering, if that was run
    """

    mean: Array
    sd: Array
    z4: Array
    quantiles: Array
    levels: Array
    mean_error: Array
    rhat: Array
    how: str
    checksum: str = ""
    sd_error: Array | None = None
    tempering: Tempering | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any], size: int | None = None) -> Reference:
        """Return the reference in a stored record; `DataError` if arrays are missing, of another size or not finite."""
        import numpy as np

        here = f"the reference of {record.get('task', 'a task')}"
        try:
            arrays = {name: np.array(record[name], dtype=np.float64) for name in (*ARRAYS, "quantiles", "levels")}
            how = (
                f"HMC, {record['chains']} chains of {record['draws']} draws from separate starts: acceptance "
                f"{record['acceptance']:.2f}, {record['seconds'] / 3600:.2g} hours; {record['command']}"
            )
            if "tempering" in record:
                arrays["sd_error"] = np.array(record["sd_error"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{here} is damaged ({error!r:.80}); compute it again by `bench truth`") from error
        count = len(arrays["mean"]) if size is None else size
        shapes = {**dict.fromkeys(ARRAYS, (count,)), "quantiles": (count, len(arrays["levels"]))}
        if "sd_error" in arrays:
            shapes["sd_error"] = (count,)
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise DataError(f"{here}: {name} is of shape {arrays[name].shape}, not {shape}; it is of other rows")
            if name != "rhat" and not np.isfinite(arrays[name]).all():
                raise DataError(f"{here}: {name} is not finite; compute it again by `bench truth`")
        tempering = Tempering.of_record(record, shapes["mean"], here) if "tempering" in record else None
        return cls(**arrays, how=how, checksum=record.get("sha256", ""), tempering=tempering)

    @property
    def refused(self) -> str:
        """Why it may not be used; "" if R-hat and the standard errors of the means are small enough.

        If parallel tempering was run and is itself good enough, the two must agree too.
        """
        reasons = _unconverged(self.rhat, self.mean_error / self.sd)
        if not reasons and self.tempering is not None and not self.tempering.unfit:
            reasons += self._differences(self.tempering)
        return "; ".join(reasons)

    @property
    def tier(self) -> str:
        """The name of its tier in `TIERS`."""
        if self.refused:
            return "none"
        return "truth" if self.tempering is not None and not self.tempering.unfit else "reference"

    def _differences(self, other: Tempering) -> list[str]:
        """Return the differences between the two that are larger than their errors allow."""
        import numpy as np

        reasons = []
        for name in ("mean", "sd"):
            off = np.abs(getattr(self, name) - getattr(other, name))
            error = np.hypot(getattr(self, f"{name}_error"), getattr(other, f"{name}_error"))
            share = float((off <= FARTHEST * error).mean())
            if not share >= SHARE:
                reasons.append(
                    f"parallel tempering has another {name} for {1 - share:.1%} of the functions, by more than "
                    f"{FARTHEST:g} standard errors and up to {(off / self.sd).max():.2g} sd"
                )
        return reasons


@dataclass(frozen=True, eq=False)
class Tempering:
    """Moments (K,) of the functions of a `Reference` by parallel tempering, their errors, and how replicas moved."""

    mean: Array
    sd: Array
    mean_error: Array
    sd_error: Array
    rhat: Array
    swap_acceptance: tuple[float, ...]
    round_trips: int

    @classmethod
    def of_record(cls, record: Mapping[str, Any], shape: tuple[int, ...], here: str) -> Tempering:
        """Return the tempering in a stored record of a reference; raise `DataError` if it is damaged."""
        import numpy as np

        try:
            part = record["tempering"]
            arrays = {name: np.array(part[name], dtype=np.float64) for name in TEMPERED}
            ladder = cls(**arrays, swap_acceptance=tuple(part["swap_acceptance"]), round_trips=int(part["round_trips"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{here} is damaged ({error!r:.80}); compute it again by `bench truth`") from error
        if any(values.shape != shape for values in arrays.values()):
            raise DataError(f"{here}: its tempering is of other functions; compute it again by `bench truth`")
        return ladder

    @property
    def unfit(self) -> str:
        """Why it cannot decide; "" if its ladders agree and its replicas made enough round trips."""
        reasons = _unconverged(self.rhat, self.mean_error / self.sd)
        if self.round_trips < ROUND_TRIPS:
            reasons.append(f"its replicas made {self.round_trips} round trips, {ROUND_TRIPS} are needed")
        return "; ".join(reasons)


def _unconverged(rhat: Array, error: Array) -> list[str]:
    """Return what is wrong with R-hat and with the standard errors of means, in sds."""
    import numpy as np

    share, largest = float((rhat <= LARGEST_RHAT).mean()), float(error.max())
    reasons = []
    if not share >= SHARE:
        reasons.append(
            f"R-hat is {LARGEST_RHAT} or less for {share:.1%} of the functions (median {np.median(rhat):.3g}, "
            f"largest {rhat.max():.3g}), {SHARE:.0%} are needed"
        )
    if not largest <= LARGEST_ERROR:
        reasons.append(f"the standard error of a mean is {largest:.2g} sd, {LARGEST_ERROR} is allowed")
    return reasons
