"""A launch that would take over a day is refused after the first seconds of it, and a short one is not."""

import time
from types import SimpleNamespace as Object

import pytest

from harness import UsageError
from harness.runs import local


def job(task="mixture5", steps=1000):
    return Object(specs=[Object(task=Object(name=task), steps=steps)])


def at_work(rate, steps, position=0, task="mixture5", seconds=60.0):
    progress = {"rate": rate, "steps": steps, "position": position}
    return Object(job=job(task, steps), began=time.monotonic() - seconds, progress=progress)


def test_jobs_that_wait_are_taken_to_last_as_long_as_the_longest_of_their_task():
    eighty_seconds = at_work(3.6, 294)
    local._refuse_long([eighty_seconds, at_work(50_000.0, 40_000)], [job(steps=40_000)] * 1000, 2)
    with pytest.raises(UsageError, match=r"about 26 hours \(1 job at work, 2300 waiting, 2 workers\)"):
        local._refuse_long([eighty_seconds], [job(steps=40_000)] * 2300, 2)


def test_slow_steps_of_one_sampler_say_nothing_of_the_steps_of_another():
    local._refuse_long([at_work(3.6, 294), at_work(20_000.0, 40_000)], [job(steps=40_000)] * 20, 2)


def test_a_task_of_which_nothing_is_known_counts_nothing_until_it_is_at_work():
    hours = 20 * 3600.0
    local._refuse_long([at_work(1.0, hours)], [job("gaussian")] * 100, 1)
    with pytest.raises(UsageError, match="about 40 hours"):
        local._refuse_long([at_work(1.0, hours), at_work(1.0, hours, task="gaussian")], [], 1)


def test_what_is_done_is_not_to_come_and_the_first_seconds_do_not_count():
    two_days = 48 * 3600.0
    local._refuse_long([at_work(1.0, two_days, position=two_days - 60)], [], 1)
    local._refuse_long([at_work(1.0, two_days, seconds=1.0)], [], 1)
    with pytest.raises(UsageError, match="add --yes"):
        local._refuse_long([at_work(1.0, two_days)], [], 1)


def test_a_job_that_was_suspended_is_judged_by_the_steps_before_and_after():
    seconds = [1.0, 2.0, 3602.0, 3603.0]  # an hour in the third block
    messages = iter(
        ("progress", {"steps": 1000, "position": 100 * k, "seconds": s, "rate": 100 * k / s})
        for k, s in enumerate(seconds, start=1)
    )
    one = at_work(0.0, 1000)
    one.receive, one.lost, one.progress = lambda: next(messages), False, {}
    one.job.specs[0].key = "key"
    heard = []
    for _ in seconds:
        assert not local._take(one, lambda _, payload: heard.append(payload["rate"]), local.LaunchSummary())
        local._refuse_long([one], [job()] * 30, 1)
    assert heard == [100 * k / s for k, s in enumerate(seconds, start=1)], "who waits is told the average"
