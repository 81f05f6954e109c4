"""How planned runs become blocks: by group, at most as large as the task allows, shared out over idle cores."""

from types import SimpleNamespace

import pytest

from harness.application.bench import Bench
from harness.application.launch import devices_for
from harness.runs import local
from harness.system.errors import UsageError

LONG = local.SHARED_FROM


def planned(groups=1, seeds=10, steps=LONG, chains=1, max_block=10_000):
    """What `jobs` looks at of planned runs."""
    return [
        SimpleNamespace(
            spec=SimpleNamespace(group=f"group {group}", seed=seed, steps=steps, chains=chains),
            max_block=max_block,
            data=(),
        )
        for group in range(groups)
        for seed in range(seeds)
    ]


def blocks(runs, cores, tmp_path):
    planned_jobs = local.jobs(runs, tmp_path, (), (), cores)
    assert sorted((s.group, s.seed) for job in planned_jobs for s in job.specs) == sorted(
        (p.spec.group, p.spec.seed) for p in runs
    )
    assert all(len({spec.group for spec in job.specs}) == 1 for job in planned_jobs)
    return [len(job.specs) for job in planned_jobs]


@pytest.mark.parametrize(
    ("groups", "cores", "expected"),
    [
        (1, 1, [10]),
        (1, 2, [5, 5]),
        (1, 4, [3, 3, 3, 1]),
        (1, 64, [1] * 10),
        (2, 2, [10, 10]),
        (3, 2, [10, 10, 10]),
        (2, 5, [5, 5, 5, 5]),
        (1, 0, [10]),
    ],
)
def test_long_groups_are_shared_out_over_idle_cores(tmp_path, groups, cores, expected):
    assert blocks(planned(groups), cores, tmp_path) == expected


def test_a_gpu_has_one_place_and_gets_whole_groups(tmp_path):
    places = local.slots(["cuda:0", "cuda:1"], None)
    assert places == [("cuda:0", "cuda:0"), ("cuda:1", "cuda:1")]
    assert blocks(planned(), local.side_by_side(places), tmp_path) == [10]


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


def test_short_groups_stay_together(tmp_path):
    assert blocks(planned(seeds=4, steps=LONG // 5), 4, tmp_path) == [4]
    assert blocks(planned(seeds=4, steps=LONG // 5, chains=10), 4, tmp_path) == [1] * 4


def test_no_block_is_larger_than_the_task_allows(tmp_path):
    assert blocks(planned(max_block=2), 1, tmp_path) == [2] * 5
    assert blocks(planned(max_block=2), 2, tmp_path) == [2] * 5
    assert blocks(planned(max_block=7), 2, tmp_path) == [5, 5]
