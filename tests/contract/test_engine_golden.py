"""Short runs whose numbers must not change unless `spec.ENGINE` is raised.

If this fails after a change to the loop, the streams or a task's arithmetic: old results are no longer comparable, so
raise ENGINE in harness/spec.py and print the new values with `python tests/contract/test_engine_golden.py`.
"""

from __future__ import annotations

import pytest
from support import SAMPLERS, make_loop, run_loop

from harness.spec import ENGINE
from plugins.schedules.cyclical import Cyclical
from tasks.synthetic.mixture5 import Mixture5

GOLDEN_ENGINE = 1
GOLDEN = {
    "sgld": [0.18531714074092107, 0.29623639227484727, 2.5633494265282635, 0.48053822148166374],
    "sghmc": [0.15024737716708308, 0.4262741493621121, 1.8702189006427077, 3.873493339687493],
    "msgld": [-0.035939578557144455, 0.5123261941556903, 2.0611941318552933, 3.7465446844434416],
    "hmc": [-2.0226441093015124, -2.923947530923296, 2.737007993464019, 3.098738929794004],
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
