"""The built-in samplers keep the laws of `bench check`; what the laws cannot say, they say so."""

from __future__ import annotations

import json
import re
from typing import ClassVar

import pytest
import torch
from planted import maker

from harness.cli.app import run
from harness.contracts.registry import load
from harness.system.errors import PluginError
from plugins.checking.check import LONG
from plugins.checking.forms import Snapshot, mean_is_one
from plugins.checking.law import Broken, worst
from plugins.checking.samplers import homogeneity
from plugins.checking.suite import LAWS, check_sampler, check_samplers
from plugins.samplers import bench_samplers
from plugins.samplers.sgld import SGLD

pytestmark = pytest.mark.usefixtures("one_thread")

INFOS = {info.name: info for info in bench_samplers()}
GROUPS = [list(INFOS)[k::3] for k in range(3)]
"""Each group shares the fresh process of the restore law."""


NAMES = [law.name for law in LAWS]
SLOW = ("coordinates", "real-loop", "seeds", *LONG)
ON_PAGES = ("derived-law", "scale", "zero-temperature")
"""Their outcomes are on the pages of all samplers: tests/pages makes these anew, and none may say that a law fails."""
QUICK = [name for name in NAMES if name not in (*SLOW, *ON_PAGES)]
OPTIMISER = {"derived-law": "skipped"}
NOT_LINEAR = {"derived-law": "skipped"}
NO_OPTIMISER = {"zero-temperature": "skipped"}
NO_PATH = {"real-loop": "skipped"}
NO_LAW = {"derived-law": "skipped", "real-loop": "skipped"}
OTHERWISE = {
    "adam": NO_LAW,
    "amagold": NOT_LINEAR | NO_OPTIMISER | {"potential": "exempt"},
    "contour-sgld": NOT_LINEAR | NO_PATH | {"potential": "exempt"},
    "dq-sgld": NO_OPTIMISER,
    "ggmc": NOT_LINEAR | NO_OPTIMISER | {"potential": "exempt"},
    "hmc": NOT_LINEAR | NO_OPTIMISER,
    "laplace": NO_LAW | {"potential": "exempt", "compiled": "exempt"},
    "laplace-signs": NO_LAW | {"potential": "exempt"},
    "last-layer-laplace": NO_LAW | {"potential": "exempt", "compiled": "exempt"},
    "last-layer-laplace-signs": NO_LAW | {"potential": "exempt"},
    "mc-dropout": OPTIMISER,
    "mclmc": NO_LAW | NO_OPTIMISER,
    "ngvi": NO_LAW | NO_OPTIMISER,
    "psmile": NO_LAW | NO_OPTIMISER,
    "relativistic-sghmc": NOT_LINEAR | NO_PATH,
    "resgld": NOT_LINEAR | NO_PATH,
    "santa": NO_LAW,
    "sgd": OPTIMISER,
    "sgdm": OPTIMISER,
    "sgfs": NO_OPTIMISER | {"scale": "exempt"},
    "sg-barker": NO_LAW | NO_OPTIMISER,
    "sg-barker-corrected": NO_LAW | NO_OPTIMISER,
    "sg-bps": NO_LAW | NO_OPTIMISER,
    "sg-ubu": NO_OPTIMISER | {"potential": "exempt"},
    "sg-zigzag": NO_LAW | NO_OPTIMISER,
    "sghmc-prec": NO_LAW,
    "sghmc-svrg": {"potential": "exempt"},
    "sgld-cv": {"potential": "exempt"},
    "sgld-svrg": {"potential": "exempt"},
    "sglrw": NO_LAW | NO_OPTIMISER,
    "sgnht": NOT_LINEAR | NO_PATH,
    "smile": NO_LAW | NO_OPTIMISER,
    "sqnlmc": NO_OPTIMISER,
    "swag": NO_LAW | {"potential": "exempt", "scale": "exempt", "zero-temperature": "exempt"},
}
"""Outcomes other than "passed", by sampler and law."""

NO_NOISE = {"noisy-scaling": "skipped"}
LONG_OTHERWISE = {
    "adadelta-sgld": {"whole-law": "exempt", "time-homogeneity": "exempt"},
    "adam": NO_NOISE,
    "amagold": NO_NOISE,
    "contour-sgld": NO_NOISE,
    "ggmc": NO_NOISE,
    "hmc": NO_NOISE,
    "laplace": NO_NOISE | {"time-homogeneity": "skipped"},
    "laplace-signs": NO_NOISE | {"time-homogeneity": "skipped"},
    "last-layer-laplace": NO_NOISE | {"time-homogeneity": "skipped"},
    "last-layer-laplace-signs": NO_NOISE | {"time-homogeneity": "skipped"},
    "mc-dropout": NO_NOISE,
    "mclmc": NO_NOISE,
    "ngvi": NO_NOISE | {"time-homogeneity": "skipped"},
    "psmile": NO_NOISE | {"time-homogeneity": "skipped"},
    "resgld": NO_NOISE,
    "santa": NO_NOISE | {"time-homogeneity": "exempt"},
    "sgd": NO_NOISE,
    "sgdm": NO_NOISE,
    "smile": NO_NOISE | {"time-homogeneity": "skipped"},
    "swag": NO_NOISE | {"time-homogeneity": "exempt"},
}
"""The same for the laws that take longest."""


def expected(name, laws):
    """The outcome of each law for a built-in sampler."""
    otherwise = OTHERWISE.get(name, {}) | LONG_OTHERWISE.get(name, {})
    return {law: otherwise.get(law, "passed") for law in laws}


@pytest.mark.statistical
@pytest.mark.parametrize("names", GROUPS, ids=",".join)
def test_every_built_in_sampler_keeps_the_quick_laws(names):
    per_sampler = check_samplers([load(INFOS[name].target)() for name in names], QUICK)
    outcomes = {name: {r.law: r.outcome for r in results} for name, results in zip(names, per_sampler, strict=True)}
    assert outcomes == {name: expected(name, QUICK) for name in names}, [
        r for results in per_sampler for r in results if r.outcome == "failed"
    ]


@pytest.mark.parametrize(
    "name", [name for name in INFOS if LONG_OTHERWISE.get(name, {}).get("time-homogeneity") != "exempt"]
)
def test_no_count_of_steps_changes_a_built_in_sampler(name):
    homogeneity.clocks(load(INFOS[name].target)())


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("name", INFOS)
def test_every_built_in_sampler_keeps_the_long_laws(name):
    laws = [law for law in NAMES if law not in QUICK]
    (results,) = check_samplers([load(INFOS[name].target)()], laws)
    assert {r.law: r.outcome for r in results} == expected(name, laws), [
        r.message for r in results if r.outcome == "failed"
    ]


class Exempted(SGLD):
    exempt: ClassVar[dict[str, str]] = {"scale": "no rescaling exists"}


class ExemptedFromSeeds(SGLD):
    exempt: ClassVar[dict[str, str]] = {"seeds": "it is hard"}


class Demanding(SGLD):
    needs: ClassVar[frozenset[str]] = frozenset({"oracle"})


planted = maker(globals())
Crashing = planted("Crashing", SGLD, step="theta - h * potential.gradient(theta), state")
ListOfStates = planted("ListOfStates", SGLD, init="[theta]")
PositionOnly = planted("PositionOnly", SGLD, step="step[0]")
# Half the temperature of the noise, and exempt from the law that would see it first.
CoolNetwork = planted("CoolNetwork", SGLD, exempt={"derived-law": "a proof"}, before="T = T / 2")
WithoutItsGradient = planted("WithoutItsGradient", SGLD,
    step="potential.grad(theta); theta + (2 * h * T).sqrt() * noise.normal(theta), state")  # fmt: skip


def test_an_exemption_is_shown_with_its_reason():
    (result,) = check_sampler(Exempted, ["scale"])
    assert (result.outcome, result.message) == ("exempt", "no rescaling exists")


def test_nobody_is_exempt_from_the_law_of_seeds():
    with pytest.raises(PluginError, match=r"exempt names seeds; a sampler may be exempt from .*scale"):
        check_sampler(ExemptedFromSeeds)


def test_a_need_that_no_potential_meets_fails_every_law():
    assert {(r.outcome, r.message.partition(",")[0]) for r in check_sampler(Demanding)} == {("failed", "needs oracle")}


class FewArguments(SGLD):
    def init(self, theta, potential):
        return {}


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        (FewArguments, r"init takes \(theta, potential\), and is called with \(theta, potential, h, T, noise\)"),
        (ListOfStates, "the state must be a dict of tensors, and has or is a list"),
        (PositionOnly, r"step must return \(theta, state\), and returned a Tensor"),
    ],
)
def test_what_init_and_step_take_and_return_is_said_in_words(sampler, said):
    results = check_sampler(sampler)
    assert {result.outcome for result in results} == {"failed"}
    assert all(re.search(said, result.message) for result in results), results


def test_an_exception_fails_the_law_and_is_named():
    (result,) = check_sampler(Crashing, ["one-step"])
    assert result.outcome == "failed"
    assert "AttributeError" in result.message
    assert "gradient" in result.message


class InOneDimension(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        if theta.shape[1] != 1:
            raise ValueError("one coordinate")
        return super().step(theta, state, potential, h, T, noise)


def test_a_sampler_that_works_in_one_dimension_only_is_told_so():
    (result,) = check_sampler(InOneDimension, ["one-step"])
    assert result.outcome == "failed"
    assert "one coordinate" in result.message
    assert "works in 1 dimension and not in 3" in result.message


def test_exempt_is_advised_for_laws_by_design_only():
    (law,) = check_sampler(CoolNetwork, ["real-loop"])
    assert "exempt" not in law.message
    (path,) = check_sampler(WithoutItsGradient, ["potential"])
    assert "step 1 ignores the gradient of the current batch" in path.message
    assert "declare exempt = {'potential'" in path.message


class Sequence(SGLD):
    """Its answer changes from the tenth call on."""

    def step(self, theta, state, potential, h, T, noise):
        calls = vars(self).setdefault("_calls", [0])
        calls[0] += 1
        return super().step(theta, state, potential, h, T if calls[0] < 10 else 2 * T, noise)


def test_a_step_that_answers_otherwise_when_repeated_is_found():
    (result,) = check_sampler(Sequence, ["derived-law"])
    assert result.outcome == "failed"


def test_a_p_value_that_is_not_a_number_fails():
    assert worst({"a": 0.5, "b": float("nan")}) == ("b", 0.0)
    nan = [Snapshot(1, torch.zeros(4, 1), {}), Snapshot(2, torch.zeros(4, 1), {})]
    with pytest.raises(Broken, match="should have mean 1"):
        mean_is_one("nan", nan, lambda one: one.theta * float("nan"))


def test_check_lists_the_laws_of_a_method_s_sampler_and_schedule_and_ends_with_1_where_one_is_broken(tmp_path, capsys):
    plugin = tmp_path / "hot.py"
    plugin.write_text(
        "from harness import Info, Method, hook\n"
        "from plugins.samplers.sgld import SGLD\n"
        "class Hot(SGLD):\n"
        f"    exempt = {dict.fromkeys(LONG, 'it takes long')}\n"
        "    def step(self, theta, state, potential, h, T, noise):\n"
        "        return super().step(theta, state, potential, h, 2 * T, noise)\n"
        "@hook\n"
        "def bench_samplers():\n"
        "    return [Info('hot', 'hot:Hot', 'twice too hot')]\n"
        "@hook\n"
        "def bench_methods():\n"
        "    return [Method('chot', 'hot', 'cyclical', 'in cycles')]\n"
    )
    assert run(["--plugin", str(plugin), "check", "chot", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    laws = {row["law"]: row for row in rows if row["kind"] == "sampler"}
    assert list(laws) == [law.name for law in LAWS]
    assert {row["outcome"] for row in rows if row["kind"] == "schedule"} == {"passed"}
    assert laws["derived-law"]["outcome"] == "failed"
    assert "lambda var(theta)/T is 2 where it should be 1" in laws["derived-law"]["message"]
    assert {name for name, row in laws.items() if row["outcome"] == "exempt"} == {*LONG}
    assert laws["restore"]["outcome"] == "passed"  # the fresh process finds the class in a file that is on no path


def test_many_names_are_shared_among_the_cores_in_the_order_given(capsys):
    names = ["polynomial", "cyclical", "constant", "snapshot", "two-stages"]
    assert run(["check", *names, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(row["name"] for row in rows)) == names
    assert {row["outcome"] for row in rows} == {"passed"}
