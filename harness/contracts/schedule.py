"""What a schedule is: a pure function from the length of a run to its trajectory."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contracts.parameters import Configurable, param
from harness.system.errors import PluginError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What happens at each of the K steps of a run, as arrays of length K.

    step_size and temperature (float64) are those that step k uses; keep marks the steps whose result is a draw;
    evaluate marks the steps at which a task may do a costly evaluation; cycle counts from 0; burn_in marks the steps
    after which a sampler adapts and whose results are not kept.

    Observers of an ensemble of P particles get each step P times, with a draw for each particle (`shared`). `particles`
    is then P, and successive draws are not a time series.

    `substeps` is the number of steps that stand for each step of the schedule (`divided`).
    """

    step_size: NDArray[np.float64]
    temperature: NDArray[np.float64]
    keep: NDArray[np.bool_]
    evaluate: NDArray[np.bool_]
    cycle: NDArray[np.int64]
    burn_in: NDArray[np.bool_]
    particles: int = 1
    substeps: int = 1

    def __post_init__(self) -> None:
        import numpy as np

        if len({len(array) for array in self._arrays().values()}) > 1:
            raise PluginError("the arrays of a trajectory differ in length")
        for name in ("step_size", "temperature"):
            values = getattr(self, name)
            if not (np.isfinite(values) & (values >= 0)).all():
                raise PluginError(f"a trajectory has a {name} that is negative or not finite")

    def __len__(self) -> int:
        return len(self.step_size)

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("particles", "substeps")}

    def shared(self, particles: int) -> Trajectory:
        """Return the trajectory with each step repeated `particles` times."""
        if particles == 1:
            return self
        arrays: dict[str, Any] = {name: array.repeat(particles) for name, array in self._arrays().items()}
        return Trajectory(**arrays, particles=particles)

    def divided(self, substeps: int) -> Trajectory:
        """Return the trajectory with `substeps` steps of size h / substeps for each step; the last one is its draw."""
        import numpy as np

        if substeps == 1:
            return self
        arrays: dict[str, Any] = {name: array.repeat(substeps) for name, array in self._arrays().items()}
        last = np.arange(1, len(self) * substeps + 1) % substeps == 0
        arrays |= {"step_size": arrays["step_size"] / substeps}
        arrays |= {name: arrays[name] & last for name in ("keep", "evaluate")}
        return Trajectory(**arrays, particles=self.particles, substeps=substeps)

    def quiet(self, steps: int) -> Trajectory:
        """Return the trajectory with its first `steps` steps at T = 0 and not kept."""
        import numpy as np

        on = np.arange(len(self)) >= steps
        return replace(self, temperature=self.temperature * on, keep=self.keep & on, evaluate=self.evaluate & on)

    def with_burn_in(self, burn_in: int, thin: int = 1) -> Trajectory:
        """Return the trajectory without draws from the first `burn_in` steps, and with every `thin`-th of the others.

        If fewer than `thin` draws remain, the last one is kept. The schedule's own burn-in stays. An evaluation mark
        moves to the latest kept draw. Raise `UsageError` if no draw remains.
        """
        import numpy as np

        steps = len(self)
        burning = self.burn_in.copy()
        burning[:burn_in] = True
        remaining = np.flatnonzero(self.keep & ~burning)
        kept = remaining[min(thin, len(remaining)) - 1 :: thin]
        if not len(kept):
            raise UsageError(
                f"no draw is kept: {steps} steps, burn-in {burn_in}, thinning {thin} and the schedule leave no draw; "
                "ask for more steps or less burn-in"
            )
        keep = np.zeros(steps, dtype=bool)
        keep[kept] = True
        evaluate = np.zeros(steps, dtype=bool)
        evaluate[kept] = np.logical_or.reduceat(self.evaluate, kept)  # of each draw and the steps up to the next one
        return replace(self, keep=keep, evaluate=evaluate, burn_in=burning)


@dataclass(frozen=True, kw_only=True)
class Schedule(Configurable):
    """Base class of every schedule: a frozen dataclass, of which one writes only `step_sizes` (or `trajectory`).

    Steps count from k = 1, as in the papers. `steps_per_epoch` is 1 for a density without data. With `weights` =
    "step-size" a draw of step k has the weight h_k, as averages along a decreasing step size need it: sum h_k f_k / sum
    h_k (Welling and Teh 2011; Kim, Song, Liang 2022, theorem 3.1).
    """

    free_text: ClassVar[bool] = False
    temperature: float = param(1.0, "[0, inf)", "T of the target exp(-U/T)", source="the posterior itself")
    weights: str = param(
        "equal", choices=("equal", "step-size"), meaning="of draws, in every estimate", source="as all have it"
    )

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        """Return the step size h of each step, float64, shape (steps,)."""
        raise NotImplementedError(f"{type(self).__name__} has no step_sizes")

    def trajectory(self, steps: int, steps_per_epoch: int) -> Trajectory:
        """Return the whole trajectory; a schedule with stages (cyclical) overrides this method."""
        import numpy as np

        return Trajectory(
            step_size=self.step_sizes(steps, steps_per_epoch),
            temperature=np.full(steps, self.temperature),
            keep=np.ones(steps, dtype=bool),
            evaluate=np.ones(steps, dtype=bool),
            cycle=np.broadcast_to(np.int64(0), (steps,)),
            burn_in=np.zeros(steps, dtype=bool),
        )
