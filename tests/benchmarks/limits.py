"""What one core of this machine can do, and what a step of SGLD asks of it.

Counted by hand, a slot being one operation of the vector unit, where a fused multiply-add is one. mixture25, with
M = 25 modes in D = 2:

    logits         M D fused multiply-adds from the offsets
    shares         M maxima, M subtractions, M exponentials, M additions, D divisions
    pulled means   M D fused multiply-adds
    update         about 3 D fused multiply-adds: precision, step, noise
    noise          D normals, written and read once: 2 x 8 D bytes
    draw           8 D bytes written

blr-german, with n = 64 rows of D = 25:

    margins        n D fused multiply-adds
    sigmoids       n exponentials, n additions, n divisions
    gradient       n D fused multiply-adds
    update, noise, draw as above
    rows           n indices, written and read once: 2 x 8 n bytes; the rows themselves are in the second-level cache
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from setting import pin

MODES, DIM = 25, 2
ROWS, PARAMETERS = 64, 25
COUNTS = {
    "mixture25": {
        "exponentials": MODES, "slots": 2 * MODES * DIM + 3 * MODES + DIM + 3 * DIM, "normals": DIM,
        "bytes": 3 * 8 * DIM,
    },
    "blr-german": {
        "exponentials": ROWS, "slots": 2 * ROWS * PARAMETERS + 2 * ROWS + 3 * PARAMETERS, "normals": PARAMETERS,
        "bytes": 3 * 8 * PARAMETERS + 2 * 8 * ROWS,
    },
}  # fmt: skip
STRETCHES = 40


def machine(seconds: float) -> dict[str, float]:
    """Measured peaks of one core, float64: slots, exponentials and normals a second, bytes moved a second.

    Of torch and NumPy, whichever is faster.
    """
    import torch

    torch.set_num_threads(1)
    a, b = torch.rand(512, 512, dtype=torch.float64), torch.rand(512, 512, dtype=torch.float64)
    product = torch.empty_like(a)
    x = -torch.rand(4096, dtype=torch.float64) * 20
    out, numpy_x, numpy_out = torch.empty_like(x), x.numpy(), np.empty(4096)
    big = torch.rand(16 * 2**20, dtype=torch.float64)
    copy = torch.empty_like(big)
    generator = torch.Generator().manual_seed(0)
    normals, sfc = torch.empty(2000, dtype=torch.float64), np.random.Generator(np.random.SFC64(0))
    return {
        "slots": rate(lambda: torch.mm(a, b, out=product), 512**3, seconds),
        "exponentials": max(
            rate(lambda: torch.exp(x, out=out), len(x), seconds),
            rate(lambda: np.exp(numpy_x, out=numpy_out), len(x), seconds),
        ),
        "normals": max(
            rate(lambda: normals.normal_(generator=generator), len(normals), seconds),
            rate(lambda: sfc.standard_normal(out=numpy_out), len(numpy_out), seconds),
        ),
        "bytes": rate(lambda: copy.copy_(big), 2 * 8 * len(big), seconds),
    }


def rate(act: Callable[[], Any], units: int, seconds: float) -> float:
    """The best of many short stretches, in units a second: a peak, not what is usual."""
    act()
    best = 0.0
    for _ in range(STRETCHES):
        began, times = time.process_time(), 0
        while time.process_time() - began < seconds / STRETCHES:
            act()
            times += 1
        best = max(best, times * units / (time.process_time() - began))
    return best


def floor(peaks: dict[str, float], counts: dict[str, int]) -> dict[str, float]:
    """Least nanoseconds of a chain-step by what they go into, and the most chain-steps a second that they allow."""
    ns = {what: 1e9 * count / peaks[what] for what, count in counts.items()}
    arithmetic = ns["exponentials"] + ns["slots"] + ns["normals"]
    return ns | {"arithmetic": arithmetic, "rate": 1e9 / max(arithmetic, ns["bytes"])}


if __name__ == "__main__":
    pin()
    peaks = machine(float(sys.argv[1]))
    floors = {task: floor(peaks, counts) for task, counts in COUNTS.items()}
    sys.stdout.write(json.dumps({"peaks": peaks, "floors": floors}) + "\n")
