"""Development tasks: `nox -s tests lint types`, or `nox -l` for all of them.

A session's environment is kept between runs under .nox/ and the project is installed into it anew each time.
The sessions that run the project (tests, portable, statistical, minimums) each hold a torch of several GB;
lint and types need none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox
import nox.command
from packaging.requirements import Requirement

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "types", "tests"]
# The same with and without uv on the machine: uv may serve a stale build of "." to a kept environment.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True

PROJECT = nox.project.load_toml("pyproject.toml")["project"]
DEPENDENCIES = {Requirement(line).name: line for line in PROJECT["dependencies"]}
TOOLS = {Requirement(line).name: line for line in PROJECT["optional-dependencies"]["dev"]}
PYTEST = [TOOLS[name] for name in ("pytest", "pytest-xdist", "hypothesis", "hatchling", "ruff")]

# Dependencies that carry types of their own and are small; pyproject.toml tells mypy to skip the others.
TYPED = ["duckdb", "jinja2", "numpy", "packaging", "platformdirs", "pluggy"]
TYPED += ["polars", "rich", "typer"]

# Two workers of one thread each fill two cores, the least that the tests are meant for.
PARALLEL = ["--numprocesses=2", "--dist=worksteal"]
# What `nox -s tests -- quick` runs: records, statistics, scoring, the loop, the store and the golden numbers.
QUICK = [
    *(f"tests/unit/{name}" for name in ("diagnostics", "ledger", "loop", "scoring", "statistics", "stepping", "store")),
    "tests/unit/test_layers.py", "tests/unit/test_names.py", "tests/unit/test_records.py",
    "tests/comparison", "tests/contract/test_golden.py", "--ignore=tests/unit/loop/test_adapters.py", "-m", "not slow",
]  # fmt: skip
# Suites with pages of their own.
STUDIES = ["orderings", "field", *sorted(path.stem for path in Path("plugins/nights/suites").glob("study-*.toml"))]
# Those with searches of their own: study-longest runs at the settings of study-longer.
SEARCHED = [suite for suite in STUDIES if suite != "study-longest"]
# What a search minimises or maximises, where it is not the default of `bench tune`.
OBJECTIVES = {
    "study-networks": "lppd", "study-more-networks": "lppd", "study-tiny-network": "joint_error",
    "study-repeated": "joint_error",
}  # fmt: skip
# Numbers of searches other than the first, by study.
SEARCHES = {"repeated": "1"}
# What the benchmarks stand beside; jax is its CPU build.
PEERS = ["blackjax>=1.2", "jax>=0.4.34", "posteriors>=0.1"]
# What chooses the kernels of torch and NumPy, as on other processors; "plain" is what any x86 processor has.
KERNELS = {
    "own": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "plain": {
        "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}  # fmt: skip
ONE_THREAD = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}


@nox.session
def tests(session: nox.Session) -> None:
    """Everything but the slow tests; what CI runs. `-- quick` runs a selection, other arguments after -- replace it."""
    session.log("6 GB of packages, then 25 minutes on two cores; `nox -s tests -- quick` runs a selection in two")
    session.install(".[arviz,posteriors,tune]", *PYTEST, TOOLS["arviz-stats"])
    words = [*PARALLEL, f"--basetemp={session.create_tmp()}/pytest"]
    selection = QUICK if session.posargs == ["quick"] else session.posargs or ["-m", "not slow"]
    session.run("pytest", *words, "--durations=40", *selection, env=ONE_THREAD)
    if not session.posargs:
        chosen = ["-m", "numbers and not slow", *bearing("numbers")]
        session.run("pytest", *words, *chosen, env=ONE_THREAD | KERNELS["plain"])


def bearing(mark: str) -> list[str]:
    """Return the test files with a mark: each worker would take half a minute to import the others."""
    files = sorted(Path("tests").rglob("test_*.py"))
    return [str(path) for path in files if f"mark.{mark}" in path.read_text("utf-8")]


@nox.session
@nox.parametrize("torch", ["oldest", "newest"])
def portable(session: nox.Session, torch: str) -> None:
    """The tests that compare numbers, as on other processors and with the oldest and the newest torch."""
    pins = [lowest(DEPENDENCIES[name]) for name in ("torch", "torchvision")] if torch == "oldest" else []
    session.install(".", *PYTEST, *pins)
    for name, variables in KERNELS.items():
        session.log(f"kernels: {name}")
        words = session.posargs or ["-m", "numbers", *bearing("numbers")]
        session.run("pytest", *PARALLEL, *words, env=ONE_THREAD | variables)


@nox.session
def statistical(session: nox.Session) -> None:
    """All slow tests, and all that decide by a random draw; three hours on two cores."""
    session.install(".", *PYTEST)
    session.run("pytest", *PARALLEL, "-m", "slow or statistical", *session.posargs, env=ONE_THREAD)


@nox.session
def crash(session: nox.Session) -> None:
    """The fault campaign's long form, an hour or two; its figures go to docs/reliability. `-- --rounds N` for fewer."""
    session.install(".")
    words = ["--write", "docs/reliability/faults.md", "--out", f"{session.create_tmp()}/crash.json", *session.posargs]
    session.run("python", "-m", "crash.campaign", *words, env=ONE_THREAD | {"PYTHONPATH": "tests"})


@nox.session
def clusters(session: nox.Session) -> None:
    """Faults on a Slurm and a Ray that are started here, four rounds on each; `-- --rounds 50 --write
    docs/reliability/clusters.md` is the long form. A cluster that cannot be started is skipped with the reason: Slurm
    needs root and its packages.
    """
    try:
        session.install(".[slurm,ray]")
    except nox.command.CommandFailed:
        session.skip("submitit or ray cannot be installed here")
    campaign, environment = ("python", "-m", "clusters.campaign"), ONE_THREAD | {"PYTHONPATH": "tests"}
    if reasons := session.run(*campaign, "--missing", env=environment, silent=True):
        session.skip(str(reasons).strip())
    words = ["--out", f"{session.create_tmp()}/clusters.json", *session.posargs]
    session.run(*campaign, *words, env=environment)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Twenty times the cases of tests/fuzz, new ones each time; half an hour. A failing one becomes an `@example`."""
    session.install(".", *PYTEST)
    words = [*PARALLEL, "--hypothesis-show-statistics", *(session.posargs or ["tests/fuzz"])]
    session.run("pytest", *words, env=ONE_THREAD | {"HYPOTHESIS_PROFILE": "long"})


@nox.session
@nox.parametrize("suite", SEARCHED)
def tuned(session: nox.Session, suite: str) -> None:
    """Tune what a suite runs, into its study in plugins/tuning: other pairs there stay. Hours, and it resumes."""
    session.install(".[tune]")
    results = f"{session.create_tmp()}/results"
    runs = [run for run in nox.project.load_toml(f"plugins/nights/suites/{suite}.toml")["run"] if "study" in run]
    kept = {
        Path(f"plugins/tuning/{run['study']}.json"): Path(results, "tuning", f"{run['study']}.json") for run in runs
    }
    for study, copy in kept.items():
        if study.is_file() and not copy.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(study, copy)
    for run in runs:
        number = ["--search", SEARCHES[run["study"]]] if run["study"] in SEARCHES else []
        for task in run["tasks"]:
            samplers = run["samplers"] if run["samplers"] == "all" else ",".join(run["samplers"])
            searched = ["--sampler", samplers, "--task", task, "--budget", run["budget"]]
            searched += ["--study", run["study"], *number]
            searched += ["--objective", OBJECTIVES[suite]] if suite in OBJECTIVES else []
            session.run("bench", "--results", results, "tune", *searched, env=ONE_THREAD)
    for study, copy in kept.items():
        shutil.copy(copy, study)


@nox.session
@nox.parametrize("suite", STUDIES)
def field(session: nox.Session, suite: str) -> None:
    """Run a suite, into docs/field and its page in docs; hours, and it resumes. With a results folder after --, use
    its runs, and run what is missing there.
    """
    session.install(".")
    bench = ("bench", "--results", *(session.posargs or [f"{session.create_tmp()}/results"]))
    session.run(*bench, "nightly", suite, "--out", f"{session.create_tmp()}/site", success_codes=[0, 1], env=ONE_THREAD)
    for figure in ("profile", "pareto") if suite == "field" else ():
        session.run(*bench, "report", figure, "--out", f"docs/field/{figure}.svg", env=ONE_THREAD)
    session.run("python", "-m", "reports.field", suite, bench[2], env=ONE_THREAD)


@nox.session
def nightly(session: nox.Session) -> None:
    """A suite end to end, `smoke` or the one after --: its pages are checked, and the second time nothing is done."""
    session.install(".")
    folder = f"{session.create_tmp()}/night"
    shutil.rmtree(folder, ignore_errors=True)
    words = ["bench", "--results", f"{folder}/results", "nightly", *(session.posargs or ["smoke"])]
    for _ in range(2):
        session.run(*words, "--out", f"{folder}/site", env=ONE_THREAD)
        session.run("python", "tests/published.py", f"{folder}/site")


@nox.session
def pages(session: nox.Session) -> None:
    """The pages of `bench site` and `bench nightly` in headless Chromium, which must be installed; pictures of all
    kinds of pages are left in the session's folder.
    """
    session.install(".", *PYTEST, "playwright>=1.49")
    pictures = {"BENCH_SCREENSHOTS": session.create_tmp()}
    session.run("pytest", "tests/nights/test_browser.py", *session.posargs, env=ONE_THREAD | pictures)


@nox.session
def latex(session: nox.Session) -> None:
    """Compile tables by LaTeX. It needs a TeX; on Debian and Ubuntu: apt-get install texlive-latex-recommended."""
    if shutil.which("pdflatex") is None:
        session.skip("there is no pdflatex; apt-get install texlive-latex-recommended")
    session.install(".", *PYTEST)
    session.run("pytest", "tests/report/test_paper_tables.py", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: the rules, then the formatting. With `-- --fix`, repair instead of report."""
    session.install(TOOLS["ruff"])
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []), ".")
    session.run("ruff", "format", *([] if fix else ["--check"]), ".")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict, on the harness, the laws and the verbs."""
    session.install(TOOLS["mypy"], *(DEPENDENCIES[name] for name in TYPED))
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Write the generated pages anew: data dictionary, a page a sampler, docs/reproduction.md, docs/field.md, the
    picture of the joint error. The tests hold them equal.

    Then build the documentation site in build/site, or in the folder after --; a missing link or description fails.
    """
    session.install(".[docs]")
    session.run("bench", "docs", env=ONE_THREAD)
    for module in ("plugins.pages.dictionary", "plugins.papers.page", "reports.field"):
        session.run("python", "-m", module, env=ONE_THREAD)
    session.run("python", "docs/site/joint_error.py", env=ONE_THREAD)
    session.run("python", "docs/site/build.py", *session.posargs)


@nox.session
def notebook(session: nox.Session) -> None:
    """Execute docs/notebook.ipynb in a kernel, and write its outputs into it; the tests compare them."""
    session.install(".[notebook]", "nbclient>=0.10")
    session.run("python", "tests/notebook.py", env=ONE_THREAD)


@nox.session
def gallery(session: nox.Session) -> None:
    """Draw the figures of docs/gallery.md from new runs, ten minutes; with a results folder after --, from its runs."""
    session.install(".")
    session.run("python", "docs/site/gallery.py", *session.posargs, env=ONE_THREAD)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Speed beside peers, into docs/benchmarks.md; quiet machine, 40 minutes. With `-- --quick`, a short trial of it;
    with `-- --samplers`, the update of every sampler alone, eight minutes; with `-- --networks`, a step of ResNet-18;
    with `-- --study`, sampling on larger posteriors, 30 minutes, or on those named after it.
    """
    session.install(".", *PEERS)
    session.run("python", "tests/benchmarks/run.py", *session.posargs)


@nox.session
def minimums(session: nox.Session) -> None:
    """The tests at the lowest version that each dependency allows."""
    session.install(*(lowest(line) for line in DEPENDENCIES.values()), *PYTEST)
    session.install("--no-deps", ".")
    session.run("pytest", *PARALLEL, *(session.posargs or ["-m", "not slow"]), env=ONE_THREAD)


def lowest(line: str) -> str:
    """The requirement pinned to its floor: torch>=2.9.0 becomes torch==2.9.0."""
    requirement = Requirement(line)
    (floor,) = (clause.version for clause in requirement.specifier if clause.operator == ">=")
    return f"{requirement.name}=={floor}"
