"""The examples of the contracts' pages, as they stand there: they run, keep the laws and do what the page says."""

import re
from pathlib import Path

import pytest
import torch
from support import forget, make_loop, run_loop

from harness.cli.app import run
from plugins.checking.check import LONG
from plugins.checking.suite import LAWS, check_samplers, check_schedule
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.synthetic.bimodal1d import Bimodal1D

DOCS = Path(__file__).parents[2] / "docs"
SLOW = {"coordinates", "restore", *LONG}


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Write the file of a page that has this name, and return its path and its module."""

    def written(page, name):
        (text,) = re.findall(rf"```python\n(# {name}\.py.*?)```", (DOCS / page).read_text(), re.DOTALL)
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        forget(name)
        return tmp_path / f"{name}.py", __import__(name)

    return written


def crossings(sampler):
    """How often the chains of a run on two modes with a barrier cross it."""
    torch.manual_seed(0)
    loop = make_loop(Bimodal1D(noise=0.0), sampler, Constant(step_size=0.01, temperature=0.1), 3000, chains=8)
    draws = []
    loop.runs[0].observer.observe = lambda part, *_: draws.append(torch.as_tensor(part))
    run_loop(loop)
    signs = torch.cat(draws, 1 if draws[0].shape[0] == 8 else 0).squeeze(-1).sign()
    return int((signs.diff(dim=int(draws[0].shape[0] == 8)) != 0).sum())


def test_the_tempering_sampler_keeps_the_laws_and_crosses_a_barrier(example):
    _, module = example("samplers-contract.md", "tempering")
    sampler = module.Tempering()
    (results,) = check_samplers([sampler], {law.name for law in LAWS} - SLOW)
    assert [result for result in results if result.outcome == "failed"] == []
    assert (sampler.particles, sampler.gradients_per_step) == (1, 4)
    assert crossings(sampler) > 20 * max(1, crossings(SGLD()))


def test_the_schedule_runs_and_keeps_the_laws(example, tmp_path, capsys):
    file, module = example("schedules-contract.md", "warmup")
    results = check_schedule(module.Warmup(step_size=0.1))
    assert [result for result in results if result.outcome == "failed"] == []
    words = ["plan", "--sampler", "sgld", "--task", "mixture5", "--schedule", "warmup", "--budget", "smoke"]
    assert run(["--results", str(tmp_path / "r"), "--plugin", str(file), *words]) == 0, capsys.readouterr().err


def test_the_baseline_is_marked_and_keeps_the_laws(example):
    _, module = example("baselines-contract.md", "averaged_sgd")
    (results,) = check_samplers([module.AveragedSGD()], {law.name for law in LAWS} - SLOW)
    assert [result for result in results if result.outcome == "failed"] == []
    assert module.bench_samplers()[0].baseline


def test_the_verb_shows_runs(example, tmp_path, capsys):
    file, _ = example("verbs-contract.md", "slowest")
    words = ["--results", str(tmp_path / "r"), "--plugin", str(file)]
    asked = ["--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=20", "--seeds", "0,1"]
    assert run([*words, "run", *asked]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run([*words, "slowest", "--most", "1"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count("gaussian2d") == 1
