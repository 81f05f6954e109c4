"""How planned runs become blocks: by group, at most as large as the task allows, divided over idle workers."""

import itertools
from types import SimpleNamespace

import pytest

from harness.application.bench import Bench
from harness.application.launch import devices_for
from harness.engine.stepping.execution_mode import Work
from harness.runs import local
from harness.runs.plan import FILLS_GPU
from harness.runs.plan import SHARED_FROM as LONG
from harness.system.errors import UsageError
from plugins.clusters.launching import CommandLauncher, share_out
from plugins.clusters.slurm import Slurm

NETWORK = {"dim": 300_000, "opaque": True}
DENSITY = {"dim": 2, "opaque": False}


def planned(seeds=10, group=0, steps=LONG, chains=1, max_block=10_000, device="cpu", task=DENSITY):
    """What `jobs` looks at of the planned runs of a group."""
    work = Work(device=device, chains=chains, **task)
    facts = {"passes": steps, "max_block": max_block, "work": work, "data": ()}
    return [
        SimpleNamespace(spec=SimpleNamespace(group=group, seed=seed, steps=steps, chains=chains), **facts)
        for seed in range(seeds)
    ]


def jobs(runs, places, tmp_path):
    """The blocks of runs: each run is in one of them, and each block is of one group."""
    blocks = [job.specs for job in local.jobs(runs, tmp_path, (), (), places)]
    assert sorted((s.group, s.seed) for block in blocks for s in block) == sorted(
        (p.spec.group, p.spec.seed) for p in runs
    )
    assert all(len({spec.group for spec in block}) == 1 for block in blocks)
    return blocks


def sizes(runs, places, tmp_path):
    return [len(block) for block in jobs(runs, places, tmp_path)]


def loads(blocks, places, work=lambda _: 1):
    """The work of each worker if the first idle one takes the next block, and one run of it follows the other."""
    done = [0] * places
    for block in blocks:
        done[done.index(min(done))] += sum(map(work, block))
    return done


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("seeds", "places"), [*itertools.product(range(1, 9), range(1, 6))])
def test_a_group_is_divided_evenly_over_all_workers(tmp_path, device, seeds, places):
    for most in (1, 3, 64):
        blocks = jobs(planned(seeds, device=device, max_block=most, task=NETWORK), places, tmp_path)
        work = loads(blocks, places)
        assert max(work) - min(work) <= 1
        assert len(blocks) == min(seeds, places) or most < seeds
        assert all(len(block) <= most for block in blocks)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_several_groups_leave_no_worker_idle(tmp_path, device):
    """The ends are a run apart at most; on CPUs groups stay whole unless they are fewer than the workers."""
    for groups, seeds, places in itertools.product(range(2, 6), range(1, 9), range(1, 6)):
        runs = [item for group in range(groups) for item in planned(seeds, group, device=device, task=NETWORK)]
        blocks = jobs(runs, places, tmp_path)
        work = loads(blocks, places)
        assert len(blocks) <= groups + places
        if device == "cuda" or groups < places:
            assert max(work) - min(work) <= 1, (groups, seeds, places)
        else:
            assert len(blocks) == groups


@pytest.mark.parametrize(
    ("seeds", "places", "device", "expected"),
    [
        ([10], 4, "cpu", [3, 3, 2, 2]),
        ([10], 64, "cpu", [1] * 10),
        ([10], 0, "cpu", [10]),
        ([10, 10], 2, "cpu", [10, 10]),
        ([10, 10, 10], 2, "cpu", [10, 10, 10]),
        ([10, 10], 5, "cpu", [4, 4, 4, 4, 2, 2]),
        ([9, 1], 3, "cpu", [4, 3, 2, 1]),
        ([5], 4, "cuda", [2, 1, 1, 1]),
        ([5, 5, 5], 4, "cuda", [4, 3, 3, 2, 2, 1]),
        ([5, 5, 5, 5], 3, "cuda", [5, 5, 4, 3, 2, 1]),
    ],
)
def test_groups_are_divided_like_this(tmp_path, seeds, places, device, expected):
    runs = [item for group, n in enumerate(seeds) for item in planned(n, group, device=device, task=NETWORK)]
    assert sorted(sizes(runs, places, tmp_path), reverse=True) == expected


def test_workers_end_within_two_of_the_longest_runs_if_runs_cost_unequally(tmp_path):
    for cheap, dear, places in itertools.product(range(1, 6), range(1, 6), range(1, 6)):
        runs = planned(cheap, 0, device="cuda", task=NETWORK) + planned(dear, 1, 3 * LONG, device="cuda", task=NETWORK)
        blocks = jobs(runs, places, tmp_path)
        work = loads(blocks, places, lambda spec: spec.steps // LONG)
        assert max(work) - min(work) < 2 * 3, (cheap, dear, places)


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_one_group_is_divided_over_all_jobs_of_a_launcher(tmp_path, gpus):
    for seeds, most in itertools.product(range(1, 9), range(1, 6)):
        launcher = CommandLauncher(Bench(), "slurm", Slurm(jobs=most, workers=2, gpus=gpus))
        places = most * (gpus or 2)
        assert launcher.devices == ["cuda:0", "cuda:1"][:gpus] * most or launcher.devices == ["cpu"] * places
        runs = planned(seeds, device="cuda" if gpus else "cpu", task=NETWORK)
        parts = share_out(local.jobs(runs, tmp_path, (), (), places), most)
        assert len(parts) == min(seeds, most)
        work = [sum(len(job.specs) for job in part) for part in parts]
        assert max(work) - min(work) <= 2, work


def test_a_sampler_without_gradients_is_divided_too(tmp_path):
    runs = planned(4, device="cuda", task=NETWORK)
    for item in runs:
        item.passes = 0
    assert sum(sizes(runs, 4, tmp_path)) == 4


def test_short_groups_stay_together(tmp_path):
    assert sizes(planned(4, steps=LONG // 5), 4, tmp_path) == [4]
    assert sizes(planned(4, steps=LONG // 5, chains=10), 4, tmp_path) == [1] * 4


@pytest.mark.parametrize(
    ("chains", "expected"), [(100, [8]), (FILLS_GPU // 4, [2] * 4), (FILLS_GPU, [2] * 4), (FILLS_GPU // 8, [4, 4])]
)
def test_chains_of_a_density_that_leave_a_gpu_idle_stay_together(tmp_path, chains, expected):
    assert sizes(planned(8, chains=chains, device="cuda"), 4, tmp_path) == expected


def test_each_gpu_and_each_core_is_a_place():
    assert local.slots(["cuda:0", "cuda:1"], None) == [("cuda:0", "cuda:0"), ("cuda:1", "cuda:1")]
    assert local.slots(["cpu"], 2) == [("cpu", "cpu-0"), ("cpu", "cpu-1")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda", ["cuda:0"]),
        ("cuda:", ["cuda:0"]),
        ("cuda:1,cuda", ["cuda:1", "cuda:0"]),
        ("cuda:00,cuda", "'cuda:00,cuda': name cuda:0 once$"),
        ("cuda:1,cuda:0,cuda:1", "'cuda:1,cuda:0,cuda:1': name cuda:1 once$"),
        ("cpu,cpu", "name cpu once; --workers"),
        ("cpu,cuda:0,cuda:0", "choose one kind"),
    ],
)
def test_each_device_is_named_once(text, expected):
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            devices_for(Bench(), text)
    else:
        assert devices_for(Bench(), text) == ("cuda", expected)


def test_no_block_is_larger_than_the_task_allows(tmp_path):
    assert sizes(planned(max_block=2), 1, tmp_path) == [2] * 5
    assert sizes(planned(max_block=2), 2, tmp_path) == [2, 2, 2, 2, 1, 1]
    assert sizes(planned(max_block=7), 2, tmp_path) == [5, 5]
