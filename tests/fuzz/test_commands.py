"""Command lines put together at random from what commands know and what they do not: each ends as documented."""

import fabricated
import pytest
from fuzz.budget import cases
from fuzz.hostile import words
from fuzz.running import ends_well
from hypothesis import example, given
from hypothesis import strategies as st

from harness.cli.app import front, repeat
from harness.runs import children

VERBS = (
    "plan", "run", "reproduce", "ls", "show", "report", "compare", "replay", "sql", "rescore", "ingest", "gc", "status",
    "new", "plugins", "nosuch", "--help",
)  # fmt: skip
"""Not those that reach the network or take long: data, check, doctor, nightly."""
OPTIONS = (
    "--sampler", "--task", "--seeds", "--chains", "--budget", "--set", "--sweep", "--schedule", "--workers",
    "--devices", "--timeout", "--draws", "--json", "--csv", "--max-rows", "--max-runs", "--metric", "--method",
    "--format", "--until", "--anyway", "--rebuild", "--verify", "--delete", "--failed", "--table", "--retry", "--yes",
    "-h", "--",
)  # fmt: skip
"""Not those that name a file or folder, which would be written to, nor --debug, which shows tracebacks."""
KNOWN = (
    "sgld", "csgld", "hmc", "mixture5", "mixture25", "cyclical", "smoke", "steps=20", "steps=1.5", "steps=1e400",
    "passes=10", "seconds=1", "0-3", "0", "99999999999999999999", "1.5", "1e3", "-1", "runs", "suites", "samplers",
    "task", "sampler", "run", "leaderboard", "coverage", "ess", "density", "latex", "html", "select 1", "from run",
    "sampler.gradient_variance=1", "schedule.step_size=0.1,0.2", "run.thin=2", "schedule.cycles=21", "cpu", "cuda:0",
    "2h", "all", "all-of-them", "a-name", fabricated.run_key(0), fabricated.run_key(0)[:8],
)  # fmt: skip
GOOD = ["--sampler", "sgld", "--task", "mixture5", "--budget", "steps=20", "--seeds", "0"]
value = st.one_of(st.sampled_from(KNOWN), st.sampled_from(KNOWN), words)
part = st.one_of(
    st.tuples(st.sampled_from(OPTIONS), value).map(list),
    st.sampled_from(OPTIONS).map(lambda option: [option]),
    value.map(lambda word: [word]),
    st.tuples(st.sampled_from(OPTIONS), value).map(lambda pair: ["=".join(pair)]),
)
commands = st.tuples(st.sampled_from(VERBS), st.sampled_from(([], GOOD)), st.lists(part, max_size=4))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder, in a working directory of its own; no worker is ever started."""
    folder = tmp_path_factory.mktemp("commands")
    fabricated.concluded(folder / "results", 0)
    fabricated.concluded(folder / "results", 1, method="csgld")
    fabricated.unfinished(folder / "results", 2)

    def refuse(*_):
        raise OSError("no worker here")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(children, "_born", refuse)
        yield folder / "results"


@cases(13)
@given(commands)
@example(("sql", [], [["select 1"], ["--max-rows", "99999999999999999999"]]))
@example(("plan", GOOD, [["--set", "run.thin=2"], ["--set", "run.thin=3"]]))
def test_any_command_ends_as_documented(results, command):
    verb, start, rest = command
    given_words = [verb, *start, *(word for part in rest for word in part)]
    ends_well(results, *repeat(front(given_words)))
