"""What `bench plan` says a run will take, from finished runs of the same and of other settings."""

import pytest

from harness.contracts.registry import registry
from harness.results.ledger.ledger import Ledger
from harness.runs import task_facts
from harness.runs.plan import RunRequest
from harness.runs.plan import plan as make_plan
from plugins.running import forecast


@pytest.fixture
def estimate(tmp_path):
    """Estimate of a run from one of width 16 and batch 32 that took 2 s and 10 ms a step, over the exact one."""

    def planned(seeds=(0,), chains=1, budget="steps=1000", **params):
        given = {"task.width": 16, "task.batch": 32, **{key.replace("_", "."): value for key, value in params.items()}}
        request = RunRequest(["sghmc"], ["landsat"], list(seeds), chains, budget, given)
        return make_plan(registry(()), request, Ledger(tmp_path))

    def told(seeds=(0,), **settings):
        return forecast._estimate(registry(()), ended, planned(seeds, **settings)[0], len(seeds))

    (item,) = planned()
    pace = forecast._Pace(
        1, 1000, forecast._kept_at_most(item.spec.canonical()), item.passes / 1000, 2.0, 9e-3, 1e-3 * item.spec.thin
    )
    record = {**item.spec.canonical(), "method": "sghmc"}

    def ended():
        return [forecast._Ended(("sghmc", "landsat", 9), record, "done", pace)]

    return told


def test_the_same_settings_take_as_long_as_before(estimate):
    assert estimate() == (pytest.approx(12.0), "from 1 run of these settings")


def test_other_steps_repeat_the_steps_and_not_the_preparation(estimate):
    assert estimate(budget="steps=4000") == (pytest.approx(42.0), "scaled from other settings")


@pytest.mark.parametrize(
    ("settings", "least", "most"),
    [
        ({"task_width": 64}, 1.2, 2),
        ({"task_batch": 512}, 1.2, 2.2),
        ({"task_width": 64, "task_batch": 512}, 2, 4),
        ({"task_width": 128, "task_batch": 512}, 2.5, 6),
        ({"chains": 4}, 1.1, 2),
    ],
)
def test_the_arithmetic_of_a_step_grows_with_width_batch_and_chains_and_the_rest_does_not(
    estimate, settings, least, most
):
    """Steps of these networks were measured to take 1.2 to 1.4, 1.2 to 1.8, 2.2 to 3.1 and 3.8 times as long."""
    seconds, how = estimate(**settings)
    assert least < (seconds - 2) / 10 < most
    assert how == "scaled from other settings"


@pytest.mark.parametrize(
    ("name", "dense"), [("landsat", True), ("mnist-sparse", True), ("cifar10", False), ("digits-cnn", False),
                        ("lda-small", False), ("blr-german", False)],
)  # fmt: skip
def test_a_network_with_convolutions_is_not_dense(name, dense):
    """Its weights are used many times for each term, so that four times the batch takes almost four times as long."""
    facts = task_facts(registry(()).find("tasks", name), {})
    assert facts.dense == dense
    few, many = (forecast._work(facts.dim, terms, dense=facts.dense) for terms in (128, 512))
    assert dense or many / few > 3.4


def test_plain_steps_say_how_long_compiled_ones_take_at_most(estimate):
    assert estimate(budget="steps=10000000", run_compile="compiled") == (
        pytest.approx(100_002.0),
        "at most, from steps done one by one",
    )
