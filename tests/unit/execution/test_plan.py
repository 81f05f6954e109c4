import pytest

from harness.contracts.registry import registry
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.results.spec import from_record
from harness.runs import plugin_metadata
from harness.runs.plan import RunRequest, parse_seeds, plan
from harness.system.errors import UsageError


def planned(tmp_path, sampler="sgld", task="mixture25", **request):
    asked = RunRequest([sampler], [task], **{"seeds": [0], "chains": 1, **request})
    return plan(registry(), asked, Ledger(tmp_path))


def spec(tmp_path, *words, **request):
    return planned(tmp_path, *words, **request)[0].spec


def test_a_papers_settings_come_with_their_source(tmp_path):
    run = spec(tmp_path, "csgld")
    assert (run.method, run.schedule.name, run.protocol) == ("csgld", "cyclical", "csgmcmc")
    assert (run.schedule.params["step_size"], run.schedule.params["cycles"]) == (0.09, 30)
    assert run.origins["schedule.step_size"].provenance == "paper"
    assert run.origins["schedule.rounding"].provenance == "default"


def test_what_a_task_hands_to_a_sampler_at_no_cost_is_recorded(tmp_path):
    origin = spec(tmp_path, "sgrld", "blr-heart").origins["needs.metric"]
    assert (origin.provenance, origin.source) == ("given", "the task")
    assert "Hessian" in origin.value
    for sampler in ("sgld", "sgfs"):  # nothing; N, and gradients of terms that it pays for
        origins = spec(tmp_path, sampler, "blr-heart").origins.values()
        assert all(known.provenance != "given" for known in origins)


def test_the_command_beats_the_paper_and_says_so(tmp_path):
    run = spec(tmp_path, "csgld", given={"schedule.step_size": "0.01", "task.noise": "0"})
    assert run.schedule.params["step_size"] == 0.01
    assert run.schedule.params["cycles"] == 30
    assert run.task.params["noise"] == 0.0
    assert run.origins["schedule.step_size"].provenance == "user"


def test_a_command_that_repeats_the_paper_changes_nothing(tmp_path):
    given = {"schedule.step_size": "0.09", "schedule.cycles": "30", "run.thin": "1", "schedule.beta": "0.5"}
    origins = spec(tmp_path, "csgld", given=given).origins
    usual = spec(tmp_path, "csgld").origins
    assert {name for name in origins if origins[name] != usual.get(name)} == {"schedule.beta"}
    assert origins["schedule.beta"].provenance == "user"


def test_another_schedule_takes_none_of_the_papers_schedule_settings(tmp_path):
    run = spec(tmp_path, "sgld", given={"schedule": "cyclical", "schedule.step_size": "0.02"})
    assert run.schedule.params["cycles"] == 4
    assert spec(tmp_path, "sgld").schedule.name == "polynomial"


def test_without_any_source_the_step_is_a_share_of_the_stability_limit(tmp_path):
    run = spec(tmp_path, "sghmc", "mixture5")
    friction = run.sampler.params["friction"]
    assert run.schedule.params["step_size"] == pytest.approx(0.2 * 2 * (2 - friction) / 2.0, rel=1e-5)
    assert run.origins["schedule.step_size"].provenance == "untuned"


def test_a_step_size_without_a_unit_is_not_divided_by_the_curvature(tmp_path):
    run = spec(tmp_path, "psgld", "mixture5")
    assert run.schedule.params["step_size"] == pytest.approx(0.2 * 2.025, rel=1e-3)


@pytest.mark.parametrize(
    ("sampler", "task", "budget", "batch", "steps"),
    [
        ("sgld", "mixture25", "paper", None, 50_000),
        ("sgld", "mixture25", "smoke", None, 3_000),
        ("sgld", "mixture25", "steps=1234", None, 1_234),
        ("sgld", "mixture25", "passes=77", None, 7_700),
        ("hmc", "mixture5", "passes=1000", None, 100),
        ("sgld", "blr-german", "passes=1000", 100, 10_000),
        ("sgld", "blr-heart", "paper", None, 10_000),
        ("hmc", "blr-heart", "paper", None, 1_000),
        ("sgld", "blr-heart", "paper", 27, 10_000),  # a tenth of the data
        ("hmc", "blr-heart", "paper", 27, 100),
    ],
)
def test_budgets_become_steps_with_the_same_gradients_for_every_sampler(tmp_path, sampler, task, budget, batch, steps):
    given = {"task.batch": str(batch)} if batch else {}
    assert spec(tmp_path, sampler, task, budget=budget, given=given).steps == steps


def test_full_gradients_of_init_are_paid_by_the_budget(tmp_path):
    def steps(**how):
        return spec(tmp_path, "sgld-cv", "blr-heart", given={"task.batch": "27", **how.pop("given", {})}, **how)

    # Of 150 passes 101 are spent at the start, or 1 without the descent; a step costs two gradients of a tenth.
    assert steps(budget="passes=150").steps == 49 * 5
    how = RunRequest(["sgld-cv"], ["blr-heart"], [0], budget="passes=150", given={"task.batch": "27"})
    (planned,) = plan(registry(), how, Ledger(tmp_path))
    assert planned.passes == pytest.approx(150)
    assert steps(budget="passes=150", given={"sampler.descent": "0"}).steps == 149 * 5
    assert steps(budget="steps=245").budget == "passes=150"
    with pytest.raises(UsageError, match="less than one step after the 101 data passes that sgld-cv spends"):
        steps(budget="passes=90")


def test_the_order_of_minibatches_is_in_the_key_where_it_is_not_the_usual_one(tmp_path):
    def ordered(order):
        return spec(tmp_path, "sgld", "blr-heart", given={"task.batch": "27", "run.batch_order": order})

    usual = spec(tmp_path, "sgld", "blr-heart", given={"task.batch": "27"})
    assert "batch_order" not in usual.canonical()
    assert ordered("shuffled").key == usual.key
    for order in ("replaced", "symmetric"):
        assert ordered(order).canonical() == {**usual.canonical(), "batch_order": order}
        assert from_record(ordered(order).to_json()) == ordered(order)
    for task in ("blr-heart", "mixture5"):
        with pytest.raises(UsageError, match=f"run.batch_order = replaced: {task} has no minibatches"):
            spec(tmp_path, "sgld", task, given={"run.batch_order": "replaced"})
    with pytest.raises(UsageError, match="shuffled, replaced, symmetric"):
        ordered("random")


def test_a_budget_has_one_name_however_it_was_asked_for(tmp_path):
    asked = ("paper", "steps=10000", "passes=10000")
    assert {spec(tmp_path, "sgld", "blr-heart", budget=budget).budget for budget in asked} == {"paper"}
    assert spec(tmp_path, "sgld", "blr-heart", budget="steps=77").budget == "passes=77"
    assert spec(tmp_path, "hmc", "blr-heart", budget="steps=77").budget == "passes=770"
    same = ("passes=77", "passes=77.0", "passes=7.7e1", "passes=0077")
    assert {spec(tmp_path, "sgld", "blr-heart", budget=budget).budget for budget in same} == {"passes=77"}
    assert spec(tmp_path, "sgld", "blr-heart", budget="passes=77.123456789012").budget == "passes=77.123456789012"


def test_burn_in_is_a_share_or_steps(tmp_path):
    assert spec(tmp_path, "sgld", "blr-heart").burn_in == 5_000
    assert spec(tmp_path, "sgld", "blr-heart", budget="steps=100").burn_in == 50
    assert spec(tmp_path, "sgld", "blr-heart", given={"run.burn_in": "7"}).burn_in == 7
    with pytest.raises(UsageError, match="leaves nothing"):
        spec(tmp_path, "sgld", "blr-heart", budget="steps=100", given={"run.burn_in": "100"})


def test_a_sweep_is_a_run_for_each_point(tmp_path):
    runs = planned(tmp_path, sweep={"schedule.a": ["0.01", "0.02"], "run.thin": ["1", "2"]}, seeds=[0, 1])
    assert len(runs) == 8
    assert {(p.spec.schedule.params["a"], p.spec.thin) for p in runs} == {(0.01, 1), (0.01, 2), (0.02, 1), (0.02, 2)}


def test_each_fact_is_looked_up_once(tmp_path, monkeypatch):
    asked, cached = [], plugin_metadata._cached
    monkeypatch.setattr(plugin_metadata, "_cached", lambda *given: asked.append(str(given)) or cached(*given))
    planned(tmp_path, "sgld", "gaussian", seeds=[0, 1], given={"schedule.step_size": "0.01"})
    assert len(asked) == len(set(asked)) == 8


def test_only_what_is_missing_is_new(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.prepare()
    done = spec(tmp_path)
    conclude(Attempt.create(ledger.runs, done, {"id": "e"}), AttemptResult(status="done"))
    runs = planned(tmp_path, seeds=[0, 1])
    assert [p.standing.status for p in runs] == ["done", "new"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampler": "sgdl"}, "unknown sampler 'sgdl'; did you mean .*sgld"),
        ({"task": "mixture52"}, "unknown task 'mixture52'; did you mean mixture"),
        ({"task": "mixture25@csgmc"}, "no protocol 'csgmc'; did you mean csgmcmc"),
        ({"given": {"schedule.aa": "1"}}, r"unknown setting 'schedule.aa'.*schedule\.a"),
        ({"given": {"sampler.gradient_variance": "-1"}}, r"outside \[0, inf\)"),
        ({"given": {"schedule": "cyclic", "schedule.step_size": "1"}}, "unknown schedule 'cyclic'; did you mean"),
        (
            {"given": {"schedule": "two-stages"}, "task": "mixture5"},
            "needs first_step_size; give it by --set",
        ),
        ({"sampler": "csgld", "given": {"schedule": "constant"}}, "--sampler sgld --schedule constant"),
        ({"budget": "papr"}, "'papr'.*did you mean paper"),
        ({"budget": "steps=-1"}, "not a number above 0"),
        ({"budget": "steps=many"}, "not a number above 0"),
        ({"budget": "steps=1.5"}, "not a whole number of steps"),
        ({"budget": "steps=99999999999999999999"}, r"below 10\^15"),
        ({"given": {"run.thin": "1.5"}}, "not an integer"),
        ({"given": {"run.thin": 2**64}}, r"not between -2\^53 and 2\^53"),
        ({"sampler": "csgld", "budget": "steps=20", "given": {"schedule.cycles": 21}}, "more than the 20 steps"),
        ({"budget": "passes=0.001"}, "less than one step"),
        ({"budget": "seconds=5"}, "unknown budget 'seconds=5'"),
        ({"budget": "steps=1e12"}, "more than 100,000,000 steps"),
        ({"sampler": "sghmc", "given": {"sampler.fricton": "1"}}, r"did you mean sampler\.friction\?"),
    ],
)
def test_what_cannot_be_planned_says_why(tmp_path, change, message):
    words = {"sampler": "sgld", "task": "mixture25", **change}
    with pytest.raises(UsageError, match=message):
        planned(tmp_path, **words)


def test_seeds():
    assert parse_seeds("0-3,7, 2") == [0, 1, 2, 3, 7]
    for wrong in ("", "a", "3-1", "-1", "1.5", "0-99999999", "1,,2"):
        with pytest.raises(UsageError, match="--seeds"):
            parse_seeds(wrong)


def test_settings_of_gpus_are_in_the_key_of_a_gpus_run_and_refused_on_a_cpu(tmp_path):
    given = {"run.tf32": "true", "run.cudnn_benchmark": "true"}
    usual, chosen = (spec(tmp_path, "sgld", "landsat", given=how, device="cuda") for how in ({}, given))
    flags = [(s.execution.tf32, s.execution.cudnn_benchmark) for s in (usual, chosen)]
    assert flags == [(False, False), (True, True)]
    assert chosen.origins["run.tf32"].provenance == "user"
    assert usual.key != chosen.key
    for name in given:
        with pytest.raises(UsageError, match=rf"{name} is a setting of GPUs; leave it out, or add --devices cuda:0"):
            spec(tmp_path, "sgld", "landsat", given={name: "false"})
