"""Comparison of numbers with stored ones, which another processor, library or compiler has made."""

from __future__ import annotations

import numpy as np

from harness.results import environment

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
"""The unit roundoff u: the largest relative error of one operation."""
TERMS = 2**15
"""Most terms of a sum in a run that is compared: the rows of a9a are the most that one gradient adds."""


def bound(dtype, steps=1, growth=1.0, terms=TERMS):
    """The largest relative difference of two runs that add in another order, or with fused operations.

    Sums of n terms differ by at most n u of their largest partial sum (Higham, Accuracy and Stability, section 4.2). A
    step adds one such difference, and `growth` is what a small difference grows by until the end of the run. Kernels
    add in blocks, and errors cancel: what was seen is some hundred times smaller.
    """
    return steps * terms * ROUNDOFF[dtype] * max(growth, 1.0)


def machine():
    """What decides rounding here, for the message of a test that fails."""
    here = environment.collect("cpu", ())
    about = {name: here[name] for name in ("cpu", "cpu_capability", "torch", "threads", "libc", "platform", "python")}
    return "\n".join(f"  {name}: {value}" for name, value in (about | {"numpy": np.__version__}).items()) + (
        f"\n  variables: {here['variables'] or 'none'}\n  features: {' '.join(here['features'])}"
    )


def check(values, stored, within, remedy):
    """Fail unless each number differs from the stored one by at most `within` of the largest; None equals only None."""
    assert [x is None for x in values] == [x is None for x in stored], f"{values} instead of {stored}; {remedy}"
    a, b = (np.array([x for x in numbers if x is not None], dtype=np.float64) for numbers in (values, stored))
    apart, scale = np.abs(a - b).max(initial=0.0), np.abs(b).max(initial=0.0)
    assert apart <= within * scale, (
        f"\n{values}\ninstead of\n{stored}\nThey differ by {apart:.3g}, {apart / scale if scale else np.inf:.2g} of "
        f"the largest; the bound of rounding is {within:.2g}. {remedy}\nOn this machine:\n{machine()}"
    )
