"""Short runs whose numbers must not change, and the hashes of code that keys are made of (tests/golden.py)."""

import golden
import pytest
import rounding

from harness.results.spec import ENGINE
from harness.runs.source import source_hash

GOLDEN = golden.read()


def test_the_code_of_each_plugin_has_its_hash():
    wrong = [target for target in golden.contents() if source_hash(target) != GOLDEN["sources"].get(target)]
    assert not wrong, "the code changed: if numbers are the same, python tests/golden.py equal; else ... new"


def check(kind, name, numbers):
    remedy = "If numbers changed on purpose: python tests/golden.py new, and an entry in the changelog."
    within = rounding.bound("float64", golden.STEPS, GOLDEN["growth"][kind][name])
    rounding.check(numbers, GOLDEN[kind][name], within, remedy)


@pytest.mark.numbers
@pytest.mark.parametrize("name", [name for name in golden.INFOS["samplers"] if name not in golden.ON_DATA])
def test_samplers_give_the_numbers_of_this_engine(name):
    check("samplers", name, golden.of_sampler(name))


@pytest.mark.numbers
@pytest.mark.data
@pytest.mark.parametrize("name", golden.ON_DATA)
def test_samplers_on_data_give_the_numbers_of_this_engine(name):
    check("samplers", name, golden.of_sampler(name))


@pytest.mark.numbers
@pytest.mark.data
@pytest.mark.parametrize("name", golden.TASKS)
def test_tasks_give_the_numbers_of_this_engine(name):
    check("tasks", name, golden.of_task(name))


def test_the_engine_is_that_of_the_numbers():
    assert GOLDEN["engine"] == ENGINE, "ENGINE was raised: python tests/golden.py new"


def test_a_new_plugin_in_a_file_with_others_has_their_hash(monkeypatch):
    monkeypatch.setattr(golden, "contents", lambda: {"a:A": "now", "a:B": "now", "c:C": "other"})
    assert golden.kept({"a:A": "before"}) == {"a:A": "before", "a:B": "before", "c:C": "other"}
