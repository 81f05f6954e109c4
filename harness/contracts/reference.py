"""References in function space: what long runs say about functions of theta if theta itself has no known truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.system.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

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
            found = {name: np.array(record[name], dtype=np.float64) for name in (*ARRAYS, "quantiles", "levels")}
            how = (
                f"HMC, {record['chains']} chains of {record['draws']} draws from separate starts: acceptance "
                f"{record['acceptance']:.2f}, {record['seconds'] / 3600:.2g} hours; {record['command']}"
            )
            if "tempering" in record:
                found["sd_error"] = np.array(record["sd_error"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{here} is damaged ({error!r:.80}); compute it again by `bench truth`") from error
        count = len(found["mean"]) if size is None else size
        shapes = {**dict.fromkeys(ARRAYS, (count,)), "quantiles": (count, len(found["levels"]))}
        if "sd_error" in found:
            shapes["sd_error"] = (count,)
        for name, shape in shapes.items():
            if found[name].shape != shape:
                raise DataError(f"{here}: {name} is of shape {found[name].shape}, not {shape}; it is of other rows")
            if name != "rhat" and not np.isfinite(found[name]).all():
                raise DataError(f"{here}: {name} is not finite; compute it again by `bench truth`")
        tempering = Tempering.of_record(record, shapes["mean"], here) if "tempering" in record else None
        return cls(**found, how=how, checksum=record.get("sha256", ""), tempering=tempering)

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
            found = {name: np.array(part[name], dtype=np.float64) for name in TEMPERED}
            made = cls(**found, swap_acceptance=tuple(part["swap_acceptance"]), round_trips=int(part["round_trips"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{here} is damaged ({error!r:.80}); compute it again by `bench truth`") from error
        if any(values.shape != shape for values in found.values()):
            raise DataError(f"{here}: its tempering is of other functions; compute it again by `bench truth`")
        return made

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
