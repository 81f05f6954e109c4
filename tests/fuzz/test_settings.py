"""Whatever is given for a setting, a seed, a budget or a device: taken as what it says, or refused by name."""

import contextlib
import json

import pytest
from fuzz.budget import cases
from fuzz.hostile import NUMBERS, WORDS, words
from fuzz.running import ends_well
from hypothesis import example, given
from hypothesis import strategies as st

from harness.application.bench import Bench
from harness.application.launch import devices_for
from harness.contracts.registry import registry
from harness.runs import plugin_metadata
from harness.runs.plan import MAX_STEPS, RunRequest, expand, parse_seeds, parse_settings
from harness.system.errors import UsageError
from plugins.running.request import request

LONGEST = 700
"""Characters of a message: what was given is quoted, and not at length."""
OFFERS = [offer for kind in ("samplers", "schedules", "tasks") for offer in registry().offers(kind)]
NUMERALS = (
    "1e400", "-1e400", "nan", "inf", "-inf", "1_000", " 5 ", "\u0661\u0662", "\uff11", "1" * 400, "0x10", "1e-400",
    "-0", "1.", ".5", "5e-324", "+1", "1e3", "true", "True", "none", "None", "2**3", "1,5", "½",
)  # fmt: skip
settings_values = st.one_of(
    st.sampled_from(NUMBERS), st.sampled_from(NUMERALS), words, st.floats(), st.integers(), st.none(), st.booleans(),
    st.lists(st.integers(), max_size=2), st.sampled_from((10**400, -(10**400), 1e300, "constant", "up", "plain")),
)  # fmt: skip


@cases(75)
@given(st.sampled_from(OFFERS), st.data())
def test_a_setting_is_taken_or_refused_by_name(offer, data):
    known = [field.name for field in plugin_metadata.fields(offer)]
    name = data.draw(st.sampled_from([*known, "nosuch", *WORDS[:6]]))
    value = data.draw(settings_values)
    needed = {field.name: 0.01 for field in plugin_metadata.fields(offer) if field.required}
    try:
        resolved = plugin_metadata.resolve(offer, needed | {name: value})
    except UsageError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert len(message) < LONGEST or name not in known
        assert repr(name)[1:-1][:40] in message
        return
    assert json.loads(json.dumps(resolved, allow_nan=False)) == resolved
    assert plugin_metadata.resolve(offer, resolved) == resolved
    assert all(str(value) != "-0.0" for value in resolved.values())


@cases(25)
@given(st.one_of(words, st.text("0123456789-, ", max_size=12), st.sampled_from(NUMERALS)))
def test_seeds_are_whole_numbers_or_refused(text):
    with contextlib.suppress(UsageError):
        seeds = parse_seeds(text)
        assert seeds
        assert all(type(seed) is int and 0 <= seed < 10**15 for seed in seeds)


@cases(25)
@given(st.one_of(words, st.text("cuda:0123456789, ", max_size=12)))
def test_devices_are_those_that_there_are_or_refused(text):
    with contextlib.suppress(UsageError):
        kind, named = devices_for(Bench(), text)
        assert kind in {"cpu", "cuda"}
        assert all(device == "cpu" or int(device.partition(":")[2]) >= 0 for device in named)


@cases(25)
@given(st.lists(st.one_of(words, st.tuples(words, words).map("=".join)), max_size=4))
@example(["a=\r\n"])
def test_words_of_set_and_sweep_are_pairs_or_refused(given_words):
    for option in ("--set", "--sweep"):
        with contextlib.suppress(UsageError):
            assert all(parse_settings(given_words, option).values())
    with contextlib.suppress(UsageError):
        request(given_words, given_words, None, None, "paper", given_words, given_words, None)


BUDGETS = st.one_of(
    words,
    st.tuples(st.sampled_from(("steps", "passes", "seconds", "STEPS", "")), st.sampled_from(NUMERALS)).map("=".join),
    st.floats().map(lambda number: f"steps={number}"),
    st.integers().map(lambda number: f"passes={number}"),
)  # fmt: skip


@cases(40)
@given(BUDGETS, st.sampled_from(("mixture5", "mixture25")), st.sampled_from(("sgld", "hmc")))
def test_a_budget_is_a_number_of_steps_or_refused(budget, task, sampler):
    try:
        ((_, (spec,)),) = expand(registry(), RunRequest([sampler], [task], [0], budget=budget))
    except UsageError:
        return
    assert 1 <= spec.steps <= MAX_STEPS
    assert spec.key


GIVEN = st.one_of(st.sampled_from([f"{kind}.{name}" for kind, name in (
    ("sampler", "gradient_variance"), ("schedule", "step_size"), ("schedule", "temperature"), ("task", "radius"),
    ("run", "burn_in"), ("run", "thin"), ("task", "count"), ("sampler", "nosuch"), ("run", "compile"), ("", ""),
)]), words, st.just("schedule"))  # fmt: skip


@cases(30)
@given(st.dictionaries(GIVEN, settings_values, max_size=3))
def test_a_whole_command_is_a_run_or_refused(given_settings):
    try:
        ((_, (spec,)),) = expand(
            registry(), RunRequest(["sgld"], ["mixture25"], [0], budget="smoke", given=given_settings)
        )
    except UsageError:
        return
    record = spec.to_json()
    assert json.loads(json.dumps(record, allow_nan=False))["key"] == spec.key


@pytest.mark.parametrize(
    "option", ["--sampler", "--task", "--seeds", "--budget", "--set", "--sweep", "--schedule", "--chains"]
)
def test_on_the_command_line_too(tmp_path, option):
    good = {"--sampler": "sgld", "--task": "mixture5", "--seeds": "0", "--budget": "smoke"}
    for value in (*WORDS[::2], "\udcff", "a=\udcff"):
        chosen = good | {option: value}
        words_of_it = [word for pair in chosen.items() for word in pair]
        code, out, _ = ends_well(tmp_path / "results", "plan", *words_of_it, codes={0, 2})
        assert code == 2, (option, value, out)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("words_of_it", [["show", None], ["ls", None], ["ls", "runs", "--task", None], ["report", None],
    ["report", "leaderboard", "--metric", None], ["report", "leaderboard", "--method", None], ["show", "task", None],
    ["check", None], ["data", "verify", None], ["compare", None, "sgld"], ["replay", None], ["rescore", "--task", None],
    ["report", "leaderboard", "--format", None], ["nightly", None], [None], ["data", None]])  # fmt: skip
def test_names_that_nothing_has_are_refused(tmp_path, words_of_it):
    for value in (*WORDS[2::4], "\udcff"):
        ends_well(tmp_path / "results", *(value if word is None else word for word in words_of_it), codes={0, 2})
