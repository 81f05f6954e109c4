"""Every field of a run's canonical form and of its environment is in a row's identity, or excluded with a reason."""

import copy
import hashlib
import json
import random

import pytest
from fabricated import result
from specs import run_spec as spec

from harness.reporting.report import Request
from harness.reporting.scores import load_groups
from harness.reporting.scoring.groups import field_of, fields
from harness.reporting.scoring.labels import labels, title
from harness.results import environment
from harness.results.store import Store

EXCLUDED = {
    "seed": "the runs of a group differ in it",
    "environment.id": "of the other fields of the environment",
    "environment.bench": "what the harness computes has the number `engine`; a version also covers pages and messages",
    "environment.python": "runs no arithmetic of a chain",
    "environment.platform": "numbers agree within rounding, and the law is the same",
    "environment.cpu": "numbers agree within rounding, and the law is the same",
    "environment.cores": "threads are fixed for each run",
    "environment.features": "numbers agree within rounding, and the law is the same",
    "environment.libc": "numbers agree within rounding, and the law is the same",
    "environment.variables": "numbers agree within rounding, and the law is the same",
    "environment.cpu_capability": "numbers agree within rounding, and the law is the same",
    "environment.gpu": "numbers agree within rounding, and the law is the same; settings of a GPU are in the run key",
    "environment.torch": "numbers agree within rounding, and the law is the same",
    "environment.device": "which one of its kind; the kind is in the run key",
    "environment.threads": "sums are made in another order: numbers agree within rounding",
    "environment.deterministic": "of a run, asked for by the setting of this name, which is in the run key",
    "environment.cudnn_deterministic": "follows from `deterministic`",
    "environment.cudnn_benchmark": "of a run on a GPU, asked for by the setting of this name, which is in the run key",
    "environment.matmul_precision": "of a run on a GPU, asked for by a setting in the run key",
    "environment.packages": "those that plugins need beyond the harness are in the hashes of their sources",
    "environment.compiler": "numbers agree within rounding, and the law is the same; the mode is in the run key",
    "environment.code": "the hashes of the sources say it of plugins, `engine` of the harness",
}
"""What a run's canonical form and its environment (environment.json) have that is not in a row's identity, and why.
All else is: it is in the run key and the group key, and it splits a table or shows in a label."""
PARAMETERS = {"a": 1.0, "b": None, "name": "x", "flag": False, "many": [1, 2]}
OTHERS = {
    str: ["y", "y, b=1)", "z" * 8 + "1", "z" * 8 + "2"], int: [2, 3], bool: [True, False],
    float: [0.1234567, 0.12345671, 1, True, "1"],
}  # fmt: skip
"""Values of each type that look alike, or are none of the type: a parameter may hold whatever JSON has."""


def canonical(device="cpu"):
    """A run's canonical form, with parameters of every kind."""
    record = spec(device=device).canonical()
    for part in ("sampler", "schedule", "task"):
        record[part]["params"] = dict(PARAMETERS)
    return record


def leaves(record, above=()):
    """Paths of all values; the parameters of a sampler, schedule or task are one."""
    for name, value in record.items():
        path = (*above, name)
        yield from leaves(value, path) if isinstance(value, dict) and name != "params" else [path]


def altered(record, path, value):
    changed = copy.deepcopy(record)
    part = changed
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return changed


def write(results, record, number=0):
    """A finished attempt of a run of this canonical form, as the ledger has it."""
    digest = lambda part: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()  # noqa: E731
    key, group = digest(record), digest({name: value for name, value in record.items() if name != "seed"})
    document = {"key": key, "group": group, "method": "sgld", "protocol": record["task"]["protocol"], "origins": {}}
    document |= {"budget": "quick", **record}
    attempt = f"20260102T{number:06d}-{key[:6]}"
    folder = results / "runs" / key[:2] / key / attempt
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(document))
    (folder / "events.jsonl").write_text("")
    (folder / "result.json").write_text(json.dumps(result(attempt, key, {})))
    return group


def groups(results):
    store = Store(results)
    assert store.refresh() == []
    return load_groups(store, Request())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_runs_that_differ_in_a_field_are_two_rows_with_two_names_or_the_field_is_excluded(tmp_path, device):
    record = canonical(device)
    base, others = write(tmp_path, record), {}
    for path in leaves(record):
        value = record
        for name in path:
            value = value[name]
        other = {**value, "a": 2.0} if isinstance(value, dict) else next(v for v in OTHERS[type(value)] if v != value)
        others[path] = write(tmp_path, altered(record, path, other))
    by_key = {group.key: group for group in groups(tmp_path)}
    assert {".".join(path) for path, key in others.items() if key == base} == EXCLUDED.keys() & {"seed"}
    for path, key in others.items():
        if key != base:
            pair = [by_key[base], by_key[key]]
            named = labels(pair)
            apart = field_of(pair[0]) != field_of(pair[1]) or len(set(named.values())) == 2
            assert apart, f"two rows that differ in {path} have one label"
            told = field_of(pair[0]) != field_of(pair[1]) or "group=" not in "".join(named.values())
            assert told, f"no setting of a group tells {path}"
            assert len({title([group], pair) + named[group.key] for group in pair}) == 2, path


def test_the_label_names_an_order_of_minibatches_that_is_not_the_usual_one(tmp_path):
    for order in ({}, {"batch_order": "replaced"}):
        write(tmp_path, {**canonical(), **order})
    usual, replaced = sorted(groups(tmp_path), key=lambda group: group.settings["run.batch_order"], reverse=True)
    assert labels([usual]) == {usual.key: "sgld"}
    assert labels([replaced]) == {replaced.key: "sgld (run.batch_order=replaced)"}
    assert labels([usual, replaced]) == labels([replaced]) | {usual.key: "sgld (run.batch_order=shuffled)"}


def test_every_field_of_the_environment_is_excluded_with_its_reason():
    recorded = {f"environment.{name}" for name in environment.collect("cpu", ())}
    assert recorded == {name for name in EXCLUDED if name.startswith("environment.")}
    assert all(EXCLUDED.values())


@pytest.mark.parametrize("seed", range(5))
def test_no_two_rows_of_a_field_have_one_label(tmp_path, seed):
    draw = random.Random(seed)
    keys = set()
    for number in range(40):
        record = canonical(draw.choice(["cpu", "cuda"]))
        for path in draw.sample(sorted(leaves(record)), 2):
            old = record
            for name in path:
                old = old[name]
            new = {**old, draw.choice(sorted(old)): draw.choice(OTHERS[float])} if path[-1] == "params" else None
            record = altered(record, path, new or draw.choice([old, *OTHERS[type(old)]]))
        group = hashlib.sha256(
            json.dumps({k: v for k, v in record.items() if k != "seed"}, sort_keys=True).encode()
        ).hexdigest()
        if group not in keys:
            keys.add(write(tmp_path, record, number))
    rows = groups(tmp_path)
    assert {group.key for group in rows} == keys
    for field in fields(rows):
        assert len(set(labels(field).values())) == len(field)
    titles = {title(field, rows) for field in fields(rows)}
    assert len(titles) == len(fields(rows))


def test_what_is_current_is_what_is_installed_else_what_was_run_last(tmp_path):
    from harness.contracts.registry import registry
    from harness.runs.source import source_hash

    record = canonical()
    record["task"]["name"] = "mixture5"
    installed = source_hash(registry().find("tasks", "mixture5").info.target)
    write(tmp_path, altered(record, ("task", "source"), installed), number=1)
    write(tmp_path, altered(record, ("task", "source"), "e" * 64), number=2)
    store = Store(tmp_path)
    store.refresh()
    for known, current in ((registry(), installed), (None, "e" * 64)):
        a, b = load_groups(store, Request(registry=known))
        assert a.differs_in_code(b)
        assert [g.settings["task source"] for g in (a, b) if g.task_code.current] == [current]
        assert {g.task_code.text for g in (a, b)} == {
            f"task source {source[:8]}, {'current' if source == current else 'older'} code"
            for source in (installed, "e" * 64)
        }
