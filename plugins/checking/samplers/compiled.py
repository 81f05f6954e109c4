"""Law 11: compiled, a sampler makes the same steps as without compilation.

An error of the sampler (a branch on a value, a number taken out of a tensor, a state kept in Python) is found when its
step is recorded, or from its path.
"""

from __future__ import annotations

from harness import Sampler
from harness.engine import Loop
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, Law, distance, draws, in_both_modes, roundings, streams, trajectory, varying

CHAINS = 3
STEPS = 12
TOLERANCE = 1e-10


def check(sampler: Sampler) -> None:
    """Compare the draws of both modes, up to rounding, along a stable trajectory.

    A sampler that adapts does so at all steps but the last, so that only one kind of block has to be compiled.
    """
    task = GaussianTask(variance=0.5)
    adapts = type(sampler).adapt is not Sampler.adapt
    path = trajectory(varying(sampler, task, STEPS), 1.0, burn_in=STEPS - 1 if adapts else 0)
    plain, other = in_both_modes(lambda mode: Loop(task, sampler, path, streams(CHAINS), CHAINS, mode=mode))
    gap = distance(draws(other), draws(plain))
    if gap > TOLERANCE:
        off = f"within {STEPS} steps the compiled path leaves the plain one by {gap:.2g} of its size"
        raise Broken(off, roundings=roundings(gap))


LAW = Law(
    11, "compiled", check,
    "a Python branch on a tensor's value, numbers taken out of tensors (.item(), float()), or a state kept in Python",
    exemptible=True,
)  # fmt: skip
