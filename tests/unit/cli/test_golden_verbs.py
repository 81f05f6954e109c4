"""What every verb that reads answers on a small results folder: exit code, keys of its JSON, first words of an error.

golden_verbs.json was written by the code before verbs became plugins. `python tests/unit/cli/test_golden_verbs.py`
writes it anew.
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import fabricated

from harness.cli.app import run

GOLDEN = Path(__file__).with_name("golden_verbs.json")
KEY = fabricated.run_key(0)[:12]
PLAN = ["--sampler", "sgld,csgld", "--task", "mixture5", "--seeds", "0-1", "--budget", "steps=100"]
COMMANDS = [
    *(["ls", kind] for kind in ("samplers", "schedules", "methods", "tasks", "reports", "suites", "runs", "frogs")),
    ["show", "sgld"], ["show", "csgld"], ["show", "cyclical"], ["show", "mixture5"], ["show", KEY], ["show", "frog"],
    ["plan", *PLAN], ["plan", *PLAN[:-2], "--budget", "frog"], ["status"],
    ["sql", "select method, count(*) as runs from run group by all order by all"], ["sql", "selec"],
    ["ingest"], ["compare", "sgld", "sgld"], ["compare", "sgld", "frog"],
    ["report", "leaderboard"], ["report", "frog"], ["plugins"], ["data", "ls"], ["data", "verify", "frog"],
    ["gc"], ["rescore", "--task", "frog"], ["replay", "123456"], ["check", "frog"], ["new", "frog", "x"],
    ["nightly", "frog", "--out", "site"], ["reproduce", "frog"], ["frog"], [],
]  # fmt: skip


def answers(folder: Path) -> dict[str, object]:
    """The answer to each command."""
    fabricated.concluded(folder, 0)
    fabricated.concluded(folder, 1, status="diverged", reason="not finite", step=12, chain=3, metrics=[])
    fabricated.concluded(folder, 2, method="csgld")
    fabricated.unfinished(folder, 3, task="mixture5")
    return {" ".join(words).replace(KEY, "KEY"): _answer(folder, words) for words in COMMANDS}


def _answer(folder: Path, words: list[str]) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(
            ["--results", str(folder), *words, *(["--json"] if words and words[0] not in {"new", "frog"} else [])]
        )
    if code not in {0, 1} or not out.getvalue():
        last = (err.getvalue().splitlines() or [""])[-1]
        return {
            "code": code,
            "says": last.replace(str(folder), "RESULTS").partition(" See `")[0].partition("; there are")[0][:60],
        }
    records = json.loads(out.getvalue())
    return {"code": code, "keys": " ".join(sorted({key for record in records for key in record}))}


def test_verbs_answer_as_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    golden = json.loads(GOLDEN.read_text())
    assert answers(tmp_path / "results") == golden


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as here:
        GOLDEN.write_text(json.dumps(answers(Path(here) / "results"), indent=1) + "\n")
