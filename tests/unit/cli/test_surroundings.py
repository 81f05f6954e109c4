"""Every verb under the variables that notebooks, editors, schedulers and CI set, and under nonsense values."""

import json
import os
import subprocess
import sys

import fabricated
import pytest
from support import bench

KINDS = {
    "jupyter": {
        "JPY_PARENT_PID": "1", "JPY_SESSION_NAME": "/notebook.ipynb", "CLICOLOR": "1", "CLICOLOR_FORCE": "1",
        "FORCE_COLOR": "1", "PYDEVD_USE_FRAME_EVAL": "NO", "TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat",
        "MPLBACKEND": "module://a_backend_that_is_not_installed.here", "JUPYTER_COLUMNS": "x", "JUPYTER_LINES": "x",
    },
    "vscode": {
        "VSCODE_PID": "1", "VSCODE_CWD": "/", "VSCODE_IPC_HOOK": "/missing", "TERM_PROGRAM": "vscode",
        "COLORTERM": "truecolor", "PYTHONUNBUFFERED": "1", "PYTHONSTARTUP": "/missing.py", "PYTHONSAFEPATH": "1",
        "ELECTRON_RUN_AS_NODE": "1", "DEBUGPY_LAUNCHER_PORT": "1", "PYTHONIOENCODING": "utf-8",
    },
    "conda": {
        "CONDA_PREFIX": "/opt/conda", "CONDA_DEFAULT_ENV": "base", "CONDA_SHLVL": "1",
        "CONDA_EXE": "/opt/conda/bin/conda", "PYTHONNOUSERSITE": "1", "CXXFLAGS": "-march=nocona", "LDFLAGS": "-Wl,-O2",
        "SSL_CERT_FILE": "/missing", "GSETTINGS_SCHEMA_DIR": "/missing", "OMP_NUM_THREADS": "1,1",
    },
    "slurm": {
        "SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_CPUS_PER_TASK": "2",
        "SLURM_JOB_NODELIST": "n[1-4]", "WORLD_SIZE": "4", "RANK": "3", "MASTER_ADDR": "n1", "MASTER_PORT": "1",
        "TMPDIR": "/missing/scratch", "XDG_CACHE_HOME": "relative", "XDG_CONFIG_HOME": "relative",
        "CUDA_VISIBLE_DEVICES": "NoDevFiles", "OMP_PROC_BIND": "spread", "LC_ALL": "POSIX",
    },
    "ci": {
        "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/missing", "GITHUB_OUTPUT": "/missing",
        "RUNNER_TEMP": "/missing", "HOME": "/missing/home", "TERM": "dumb", "PY_COLORS": "1", "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0", "LANG": "",
    },
    "nonsense": {
        "MPLBACKEND": "nonsense", "MPLCONFIGDIR": "/proc/x", "COLUMNS": "x", "LINES": "-3", "TERM": "nonsense",
        "PYTHONWARNINGS": "nonsense::x", "PYTHONOPTIMIZE": "2", "LC_ALL": "xx_XX.nonsense", "LANG": "xx",
        "HOME": "", "XDG_CACHE_HOME": "/etc/passwd", "POLARS_MAX_THREADS": "nonsense", "POLARS_FMT_MAX_ROWS": "x",
        "OMP_NUM_THREADS": "nonsense", "MKL_NUM_THREADS": "-1", "ARROW_IO_THREADS": "x", "NUMEXPR_MAX_THREADS": "x",
        "CUDA_VISIBLE_DEVICES": "nonsense", "_BENCH_COMPLETE": "nonsense", "COMP_CWORD": "x", "TZ": "No/where",
        "MOTHERDUCK_TOKEN": "x", "GIT_DIR": "/missing", "SHELL": "", "TYPER_STANDARD_TRACEBACK": "1", "BENCH_CACHE": "",
    },
}  # fmt: skip
"""The variables that each of these programs sets for its children, and values that no program should set."""
VERBS = [
    ["ls", "runs"], ["status"], ["report", "leaderboard", "--json"], ["report", "schedules", "--out", "figures"],
    ["compare", "sgld", "csgld", "--differs", "schedule"],
    ["sql", "from run"], ["show", "sgld"], ["ingest"], ["gc"], ["data", "ls"],
    ["export", "--out", "exported"], ["verify", "exported", "--replays", "0"], ["cancel"], ["new", "task", "own"],
    ["plan", "--sampler", "sgld", "--task", "mixture5"],
    ["merge", "results"], ["rescore"],
    ["run", "--sampler", "sgld", "--task", "mixture5", "--budget", "steps=50", "--seeds", "0"],
]  # fmt: skip
SLOW = [["site", "--out", "pages"], ["plugins"], ["doctor"], ["docs", "docs"], ["check", "sgld"]]
OTHERS = {"verify": {"0", "1"}, "doctor": {"0", "1"}, "merge": {"0", "4"}, "rescore": {"0", "1"}}
"""The exit codes of verbs that refuse made-up runs, or find something wrong with the variables."""
MADE = {"results", "figures", "exported", "pages", "a.tar", "own", "merged", "docs"}
PROGRAM = """
import json, sys
from harness.cli import main
for words in json.loads(sys.argv[1]) if __name__ == "__main__" else ():
    try:
        main(["--results", "results" if words[0] != "merge" else "merged", *words])
    except SystemExit as stop:
        print("EXIT", words[0], stop.code, file=sys.stderr, flush=True)
"""
SURROUNDINGS = [
    # With PYTHONOPTIMIZE, all of torch is compiled anew.
    pytest.param(KINDS["jupyter"] | KINDS["nonsense"] | {"PYTHONOPTIMIZE": ""}, id="jupyter and nonsense"),
    *(pytest.param(variables, marks=pytest.mark.slow, id=kind) for kind, variables in KINDS.items()),
]


@pytest.mark.parametrize("variables", SURROUNDINGS)
@pytest.mark.parametrize("verbs", [VERBS, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["verbs", "slow verbs"])
def test_every_verb(tmp_path, variables, verbs):
    for seed, method in enumerate(("sgld", "sgld", "csgld", "csgld")):
        fabricated.concluded(tmp_path / "results", seed % 2, number=seed, method=method, points=4)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(verbs)], cwd=tmp_path, env={**os.environ, **variables},
        capture_output=True, text=True, errors="replace", timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ended = dict(line.split()[1:] for line in done.stderr.splitlines() if line.startswith("EXIT"))
    assert ended.keys() == {words[0] for words in verbs}
    assert all(code in OTHERS.get(verb, {"0"}) for verb, code in ended.items()), (ended, done.stderr)
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert [*tmp_path.rglob("*.svg")]
    assert verbs is SLOW or "results: 1 done" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= MADE


def test_without_assertions_and_docstrings(tmp_path):
    done = bench(["plan", "--sampler", "sgld", "--task", "mixture5"], tmp_path, PYTHONOPTIMIZE="2")
    assert done.returncode == 0, done.stderr
    assert "sgld" in done.stdout
