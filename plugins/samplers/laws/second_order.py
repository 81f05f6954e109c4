"""The laws of sgfs and sqnlmc: their preconditioner is what they say, so half a step is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from plugins.checking import SamplerLaw

if TYPE_CHECKING:
    from torch import Tensor


def _number(value: float) -> Tensor:
    import torch

    return torch.tensor(value, dtype=torch.float64)


class SGFSLaw(SamplerLaw):
    """A step is theta - 2 (gamma N I + 4 B / epsilon)^-1 (g + eta), the form of the paper, with epsilon = 2 h."""

    clocks: ClassVar[Mapping[str, str]] = {"t": "it makes I a running mean, whose latest value has the share 1 / t"}
    shows: ClassVar[str] = "One step with given scores, noise and Fisher matrix is the equation of the paper."

    def check(self, sampler: Any) -> None:
        """One step by hand in NumPy, with given scores, gradient, noise and Fisher matrix."""
        import numpy as np
        import torch

        from harness import linear

        rng = np.random.default_rng(0)
        scores, g, xi, theta = (rng.standard_normal(size) for size in ((5, 2), 2, 2, 2))
        old, N, h, T = np.array([[2.0, 0.3], [0.3, 1.0]]), 40, 0.03, 1.7

        class Given:
            terms = N

            def scores(self, _: Any) -> Tensor:
                return torch.from_numpy(scores)[None]

            def grad(self, _: Any) -> Tensor:
                return torch.from_numpy(g)[None]

        state = {"I": torch.from_numpy(old)[None], "t": torch.full((1, 1, 1), 3.0, dtype=torch.float64)}
        noise = linear.ScriptedNoise([torch.from_numpy(xi)[None]])
        moved, _ = sampler.step(torch.from_numpy(theta)[None], state, Given(), _number(h), _number(T), noise)
        fisher = 0.75 * old + 0.25 * np.cov(scores.T)
        gamma, epsilon = (N + 5) / 5, 2 * h
        matrix = gamma * N * fisher + 4 * sampler.b / epsilon * np.eye(2)
        eta = -np.sqrt(4 * sampler.b * T / epsilon) * xi
        expected = theta - 2 * np.linalg.solve(matrix, g + eta)
        gap = np.abs(moved.numpy()[0] - expected).max()
        assert gap < 1e-10, f"a step is off by {gap:.2g} from theta - 2 (gamma N I + 4 B / epsilon)^-1 (g + eta)"


class SQNLMCLaw(SamplerLaw):
    """In one dimension any pair makes H the inverse Hessian: at T = 0, theta_t = (1 - h) theta_{t-M}."""

    shows: ClassVar[str] = (
        "In one dimension: at T = 0 a step is a Newton step, before there are pairs one with H = 1 / b; at T > 0 its "
        "noise has the variance 2 h T H."
    )

    def check(self, sampler: Any) -> None:
        """Before there are pairs H = 1 / b, after them 1 / lambda; at T > 0 the noise has the variance 2 h T H."""
        import torch

        from harness import linear

        curvature, h, T, M = 0.7 * sampler.b, 0.2, 1.3, sampler.memory

        class Quadratic:
            def grad(self, x: Tensor) -> Tensor:
                return curvature * x

        def step(theta: Tensor, state: Any, xi: float) -> Any:
            noise = linear.ScriptedNoise([torch.full((1, 1), xi, dtype=torch.float64)])
            return sampler.step(theta, state, Quadratic(), _number(h), _number(T), noise)

        theta = torch.ones((1, 1), dtype=torch.float64)
        state = sampler.init(theta, Quadratic(), _number(h), _number(T), linear.ScriptedNoise())
        path = [1.0] * M
        for _ in range(4 * M):
            theta, state = step(theta, state, 0.0)
            path.append(float(theta))
        first, later = path[M], path[-1] / path[-1 - M]
        assert abs(first - (1 - h * curvature / sampler.b)) < 1e-9, f"the first step moves 1 to {first:.6g}"
        assert abs(later - (1 - h)) < 1e-6, f"with H the inverse Hessian a step makes it {later:.6g} times as much"
        still, moved = (float(step(theta, state, xi)[0]) for xi in (0.0, 1.0))
        variance = (moved - still) ** 2 * curvature / (2 * h * T)
        assert abs(variance - 1) < 1e-6, f"the noise of a step has {variance:.6g} times the variance 2 h T H"
