"""The identity of a run: canonical whatever its settings are, another one exactly when something that matters is."""

import json
from dataclasses import fields, replace

import specs
from fuzz.budget import cases
from hypothesis import given
from hypothesis import strategies as st

from harness.results import spec as identity
from harness.results.spec import Component, Execution, Origin, RunSpec

LABELS = {"method", "budget", "origins"}
names = st.text(max_size=30).filter(lambda text: all(not 0xD800 <= ord(c) <= 0xDFFF for c in text))
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), names,
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)  # fmt: skip
params = st.dictionaries(names, values, max_size=4)
components = st.builds(Component, names, names, names, params)
whole = st.integers(0, 2**53)
steps = st.integers(2**20, identity.MAX_STEPS)
runs = st.builds(
    RunSpec,
    sampler=components, schedule=components, task=components, task_version=whole, protocol=names, data=names,
    steps=steps, burn_in=st.integers(0, 2**20 - 1), thin=st.integers(1, 2**53), seed=st.integers(0, 2**30),
    chains=st.integers(1, identity.MAX_CHAINS), method=names, budget=names,
    execution=st.builds(Execution, dtype=names, device=names, deterministic=st.booleans(), compile=names),
    origins=st.dictionaries(names, st.builds(Origin, values, names, names), max_size=3),
)  # fmt: skip
CASES = cases(50)


@CASES
@given(runs)
def test_a_record_is_the_run_again(run):
    stored = json.loads(json.dumps(run.to_json(), allow_nan=False))
    again = identity.from_record(stored)
    assert again == run
    assert again.key == run.key == stored["key"] == identity.recorded_key(stored)
    assert again.group == run.group == stored["group"]


@CASES
@given(runs, st.sampled_from([f.name for f in fields(RunSpec)]), runs)
def test_the_key_is_another_exactly_when_something_that_matters_is(run, name, donor):
    other = replace(run, **{name: getattr(donor, name)})
    same = json.dumps(other.canonical(), sort_keys=True) == json.dumps(run.canonical(), sort_keys=True)
    assert (other.key == run.key) == same
    if name in LABELS:
        assert same
    elif name not in {"sampler", "schedule", "task"}:
        assert same == (getattr(other, name) == getattr(run, name))
    if name == "seed":
        assert other.group == run.group


@CASES
@given(st.dictionaries(names, values, min_size=2, max_size=6), st.randoms())
def test_the_order_of_parameters_is_nothing(given_params, random):
    shuffled = list(given_params.items())
    random.shuffle(shuffled)
    part = Component("a", "m:C", "s", given_params)
    assert specs.run_spec(task=replace(part, params=dict(shuffled))).key == specs.run_spec(task=part).key
