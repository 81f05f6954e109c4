"""The cost of a row is that of all searches of its pair: of other code too, and each once."""

import json

import pytest

from harness.tasks import TUNING_SEED
from plugins.tuning import studies
from plugins.tuning.record import add

SEARCH = {"command": "--budget quick", "search_version": 3, "budget": "quick", "trials": 30}
CODE = {"code": {"sampler": "a", "schedule": "b", "task": "c"}, "engine": 3}
RECORD = {
    "method": "sgld", "task": "gaussian2d", "protocol": "csgmcmc-slides", "budget": "quick", "trials": 30,
    "passes": 1.0, "code": {}, "settings": {"schedule": "constant", "schedule.step_size": 0.1}, "search_version": 3,
    "seeds": [TUNING_SEED], "finalist_seeds": [TUNING_SEED + 100], "schedules": ["constant"],
    "objective": "nll", "direction": "min", "given": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now", "searches"),
    [
        (CODE, CODE, 1),
        (CODE, {**CODE, "code": {**CODE["code"], "sampler": "new"}}, 2),
        (CODE, {**CODE, "engine": 4}, 2),
        ({}, CODE, 1),  # of an earlier version, which did not name the code
        ({"trials": 29}, CODE, 2),
        ({}, {**CODE, "search": 1}, 2),
    ],
)
def test_a_search_of_other_code_is_another_search(tmp_path, before, now, searches):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"format": 2, "tuned": [{**RECORD, "searches": [{**SEARCH, **before}]}]}))
    later = {**RECORD, "searches": [{**SEARCH, **now}]}
    (written,) = add(file, {studies.key(later): later}, {}).values()
    assert len(written["searches"]) == searches
    assert written["trials"] == sum({**SEARCH, **one}["trials"] for one in (before, now)[-searches:])
    assert any(now.items() <= one.items() for one in written["searches"])
