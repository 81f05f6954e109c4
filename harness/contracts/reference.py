"""A reference in function space: what long runs say about functions of theta where theta itself has no known truth."""

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
ARRAYS = ("mean", "sd", "z4", "mean_error", "rhat")
TIERS = {
    "truth": "moments of theta are exact or accepted in every coordinate",
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
    mean_error   (K,), standard errors of the means: between chains
    rhat         (K,), rank-normalised
    how          how they were obtained, with the command
    checksum     of the record that `bench truth` stored; "" for one that comes with the task
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

    @classmethod
    def of_record(cls, record: Mapping[str, Any], size: int | None = None) -> Reference:
        """The reference in a stored record; `DataError` where arrays are missing, of another size, or not finite."""
        import numpy as np

        here = f"the reference of {record.get('task', 'a task')}"
        try:
            found = {name: np.array(record[name], dtype=np.float64) for name in (*ARRAYS, "quantiles", "levels")}
            how = (
                f"HMC, {record['chains']} chains of {record['draws']} draws from separate starts: acceptance "
                f"{record['acceptance']:.2f}, {record['seconds'] / 3600:.2g} hours; {record['command']}"
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{here} is damaged ({error!r:.80}); compute it again by `bench truth`") from error
        count = len(found["mean"]) if size is None else size
        shapes = {**dict.fromkeys(ARRAYS, (count,)), "quantiles": (count, len(found["levels"]))}
        for name, shape in shapes.items():
            if found[name].shape != shape:
                raise DataError(f"{here}: {name} is of shape {found[name].shape}, not {shape}; it is of other rows")
            if name != "rhat" and not np.isfinite(found[name]).all():
                raise DataError(f"{here}: {name} is not finite; compute it again by `bench truth`")
        return cls(**found, how=how, checksum=record.get("sha256", ""))

    @property
    def refused(self) -> str:
        """Why it may not be used: "" where R-hat and standard errors of the means are small enough."""
        import numpy as np

        share = float((self.rhat <= LARGEST_RHAT).mean())
        error = float((self.mean_error / self.sd).max())
        reasons = []
        if not share >= SHARE:
            reasons.append(
                f"R-hat is {LARGEST_RHAT} or less for {share:.1%} of the functions (median {np.median(self.rhat):.3g}, "
                f"largest {self.rhat.max():.3g}), {SHARE:.0%} are needed"
            )
        if not error <= LARGEST_ERROR:
            reasons.append(f"the standard error of a mean is {error:.2g} sd, {LARGEST_ERROR} is allowed")
        return "; ".join(reasons)

    @property
    def tier(self) -> str:
        """The name in `TIERS`."""
        return "none" if self.refused else "reference"
