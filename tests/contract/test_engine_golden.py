"""Short runs whose numbers must not change unless `spec.ENGINE` is raised.

If this fails after a change to the loop, the streams or a task's arithmetic: old results are no longer comparable, so
raise ENGINE in harness/results/spec.py and print the new values with `python tests/contract/test_engine_golden.py`.
"""

from __future__ import annotations

import pytest
from support import SAMPLERS, make_loop, run_loop

from harness.results.spec import ENGINE
from plugins.schedules.cyclical import Cyclical
from tasks.synthetic.mixture5 import Mixture5

GOLDEN_ENGINE = 2
GOLDEN = {
    "sgld": [-0.4398497287576373, -0.36505742473619995, 1.1995101966890818, -0.7989350628810765],
    "sghmc": [0.16832494840175205, 0.14956447410135468, 0.6992775273193104, -0.5360391930891635],
    "msgld": [1.4362162605341977, 0.5496009671302262, 1.9350857531686358, -0.6533549602504966],
    "hmc": [-0.3956552451699557, -0.4821734194991047, 3.0465743848240328, 3.384545614707756],
}


def final(name):
    schedule = Cyclical(step_size=0.05, cycles=2, beta=0.2, explore_with_noise=name == "hmc")
    loop = make_loop(Mixture5(), SAMPLERS[name], schedule, 40, seeds=(7,), burn_in=5)
    return run_loop(loop).theta.flatten().tolist()


@pytest.mark.parametrize("name", SAMPLERS)
def test_short_runs_give_the_numbers_of_this_engine(name):
    assert ENGINE == GOLDEN_ENGINE
    assert final(name) == pytest.approx(GOLDEN[name], rel=1e-9)


if __name__ == "__main__":
    print({name: final(name) for name in SAMPLERS})  # noqa: T201 - how the values above are made
