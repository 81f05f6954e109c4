"""The law of dq-sgld: its covariance is S at every step size, with the noise of batches drawn with replacement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from plugins.checking import SamplerLaw

if TYPE_CHECKING:
    from torch import Tensor

ROWS, BATCH, DIM = 40, 5, 3


class DQSGLDLaw(SamplerLaw):
    """As h -> 0 the target with `target=posterior`; on a quadratic with the noise of its batches S at every h."""

    shows: ClassVar[str] = (
        "On a linear regression that does not fit its data the matrices of a step, read from its answers, satisfy "
        "S = A S A' + B B' + G C G' at h = 0.2, 0.7 and 1, for both targets and two temperatures, with S, J, V and C "
        "computed from the rows; the mode is that of least squares; and at h = 1 there is no noise but that of batches."
    )

    def check(self, sampler: Any) -> None:
        """The covariance after a step from S, for both targets."""
        import numpy as np
        import torch

        from harness import linear

        rng = np.random.default_rng(0)
        a = rng.standard_normal((ROWS, DIM)) @ np.array([[1.0, 0.5, 0], [0, 1, 0.7], [0, 0, 0.4]])
        y = rng.standard_normal(ROWS) * (1 + 2 * a[:, 0] ** 2)
        J = a.T @ a + np.eye(DIM)
        mode = np.linalg.solve(J, a.T @ y)
        scores = a * (a @ mode - y)[:, None]
        V = ROWS * np.cov(scores.T, ddof=0)
        C = ROWS / BATCH * V

        class Regression:
            terms = ROWS

            def __init__(self, rows: slice, error: Tensor | None = None) -> None:
                self.a, self.y, self.error = torch.from_numpy(a[rows]), torch.from_numpy(y[rows]), error

            def scores(self, x: Tensor) -> Tensor:
                return self.a * ((self.a * x[:, None]).sum(2) - self.y)[:, :, None]

            def gauss_newton(self, x: Tensor, *, last_layer: bool, full: bool) -> Any:
                return {0: [(self.a.T @ self.a).expand(len(x), -1, -1)]}, 1.0

            def grad(self, x: Tensor) -> Tensor:
                g = x @ torch.from_numpy(J) - torch.from_numpy(J @ mode)
                return g if self.error is None else g + self.error

            def value_and_grad(self, x: Tensor) -> Any:
                r = (self.a * x[:, None]).sum(2) - self.y
                return (r.square().sum(1) + x.square().sum(1)) / 2, self.grad(x)

            @property
            def full(self) -> Regression:
                return Regression(slice(None))

        for target, T in (("posterior", 1.0), ("posterior", 0.3), ("sandwich", 1.0)):
            one = replace(sampler, target=target)
            S = T * np.linalg.inv(J) if target == "posterior" else np.linalg.solve(J, np.linalg.solve(J, V).T)
            for h in (0.2, 0.7, 1.0):
                size, heat = (torch.tensor(value, dtype=torch.float64) for value in (h, T))
                away, zeros = torch.ones((1, DIM), dtype=torch.float64), torch.zeros((3 * DIM + 1, DIM))
                batch = Regression(slice(0, BATCH))
                state = one.init(away, batch, size, heat, linear.ScriptedNoise([away]))
                state = {name: leaf.expand(3 * DIM + 1, *leaf.shape[1:]) for name, leaf in state.items()}
                theta, xi, error = (zeros.double() for _ in range(3))
                for part, block in enumerate((theta, xi, error)):
                    block[1 + part * DIM : 1 + (part + 1) * DIM] = torch.eye(DIM)
                potential = Regression(slice(0, BATCH), error)
                at = torch.from_numpy(mode) + theta
                moved, _ = one.step(at, state, potential, size, heat, linear.ScriptedNoise([xi]))
                still, answers = moved[0].numpy() - mode, (moved[1:] - moved[0]).numpy()
                A, B, G = (answers[k * DIM : (k + 1) * DIM].T for k in range(3))
                gap = np.abs(still).max()
                assert gap < 1e-9, f"{target}: without noise a step moves the mode by {gap:.2g}"
                after = A @ S @ A.T + B @ B.T + G @ C @ G.T
                gap = np.abs(after - S).max() / np.abs(S).max()
                assert gap < 1e-9, f"{target}, T = {T:g}, h = {h:g}: a step changes the covariance S by {gap:.2g} of it"
                assert h < 1 or not B.any(), f"{target}: a step of h = 1 draws noise of size {np.abs(B).max():.2g}"
