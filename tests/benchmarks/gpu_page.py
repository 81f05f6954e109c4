"""The section GPU of docs/benchmarks.md and of the tables beside it, from gpu.json: what gpu.py recorded."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu import RUNS
from tables import Goal, goal_table, grid, number, plural, spread

FILE = "gpu.json"
EPOCH = 782
"""Steps of an epoch of CIFAR-10 in batches of 64."""
EPOCHS = f"ResNet-18 on CIFAR-10, seconds an epoch of {EPOCH} steps,"
STEP = {"tf32": False, "mode": "compiled", "last": True, "batch": 64}
TF32 = {**STEP, "precision": "float32", "tf32": True}
BFLOAT16 = {**STEP, "precision": "bfloat16"}
NETWORK = {**BFLOAT16, "mode": "network"}
CHAINS = {"library": "bench", "sampler": "sgld", "mode": "compiled", "dtype": "float64"}
PEER = {"library": "blackjax", "sampler": "sgld", "form": "vmap", "dtype": "float64"}
MODES = {"compiled": "recorded", "plain": "plain", "network": "recorded, run.compile=network"}
PLACES = {"conv": "convolution", "norm": "batch normalisation, weights", "running": "batch normalisation, statistics",
          "linear": "linear layer"}  # fmt: skip
WHY_CHAINS = (
    "a step of ours also copies its draw, checks every chain for values that are not finite, and reads noise that was "
    "drawn before the block; blackjax draws the noise within the step and keeps no draw here. What each of these takes "
    "was not measured."
)


def _measured(make: Callable[[], Any]) -> Any:
    """What `make` returns; None where the record lacks a case that it needs."""
    try:
        return make()
    except (KeyError, StopIteration):
        return None


class Cases:
    """The cases of a record; of one that was measured again the last session counts."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.all = [(n, case) for n, session in enumerate(record["sessions"], 1) for case in session["cases"]]

    def of(self, *blocks: str) -> list[tuple[int, Mapping[str, Any]]]:
        """Those that have a value, with the numbers of their sessions."""
        return [(n, case) for n, case in self.all if case["block"] in blocks and "error" not in case]

    def last(self, block: str, session: int | None = None, **asked: Any) -> Mapping[str, Any]:
        """{} where it was not measured."""
        cases = [case for n, case in self.of(block) if asked.items() <= case["asked"].items() and session in {None, n}]
        return cases[-1] if cases else {}

    def ms(self, asked: Mapping[str, Any], session: int | None = None) -> float:
        """The median of the rounds of a step; KeyError where it was not measured."""
        block = "network" if asked["mode"] == "network" else "steps"
        return statistics.median(self.last(block, session, **asked)["ms"])

    def epoch(self, asked: Mapping[str, Any], session: int | None = None) -> float:
        return EPOCH * self.ms(asked, session) / 1e3


def summary(record: Mapping[str, Any]) -> str:
    cases = Cases(record)
    sessions = "; ".join(f"session {n}: {s['date']}, {s['code']}" for n, s in enumerate(record["sessions"], 1))
    return SUMMARY.format(
        machine=_machine(cases),
        sessions=sessions,
        goals=goal_table(_goals(cases, record["runs"])),
        findings="\n\n".join(_findings(cases)),
        runs=_runs(record["runs"]),
    )


def section(record: Mapping[str, Any], operations: float) -> str:
    """`operations` are those of the products and convolutions of a step of ResNet-18 on a batch of 64."""
    cases = Cases(record)
    peak = cases.last("ready", what="peak")
    return SECTION.format(
        machine=_machine(cases),
        peaks=PEAKS.format(**{name: number(peak[name]) for name in ALL}) if peak else "No peak was measured.",
        steps=_steps(cases, peak, operations),
        profile=_profile(cases),
        aligned=_aligned(cases),
        predict=_predict(cases),
        several=_several(cases),
        chains=_chains(cases),
        notes="\n".join(_notes(record)),
    )


def _notes(record: Mapping[str, Any]) -> list[str]:
    lines = []
    for n, session in enumerate(record["sessions"], 1):
        failed = Counter(f"{case['block']} ({case['error']})" for case in session["cases"]
                         if "error" in case and case["block"] != "align")  # fmt: skip
        lines.append(f"- Session {n}, {session['date']}, {session['code']}. Tests marked `gpu`: {session['tests']}.")
        lines += [f"  {note}" for note in session["notes"]]
        lines += [f"  Failed: {', '.join(f'{count} of {name}' for name, count in failed.items())}."] if failed else []
    return lines


def _machine(cases: Cases) -> str:
    here = cases.last("ready", what="versions")
    if "gpu" not in here:
        return "No GPU"
    cudnn = "{}.{}.{}".format(here["cudnn"] // 10_000, here["cudnn"] % 10_000 // 100, here["cudnn"] % 100)
    return f"{here['gpu']}, {here['cores']} cores, Python {here['python']}, torch {here['torch']}, cuDNN {cudnn}"


def _goals(cases: Cases, runs: Sequence[Mapping[str, Any]]) -> list[Goal]:
    why = _measured(lambda: _why(cases)) or ""
    steps = [("TF32, recorded", TF32, 3, ""), ("bfloat16, recorded", BFLOAT16, 1.5, why),
             ("bfloat16, run.compile=network", NETWORK, 1.5, "its kernels were not profiled.")]  # fmt: skip
    goals = []
    for label, how, limit, reason in steps:
        seconds = _measured(lambda how=how: cases.epoch(how))
        goals.append(Goal(f"{EPOCHS} {label}", [seconds] if seconds else [], limit, False, reason))
    for run in runs:
        if run["protocol"] == "csgmcmc" and run["settings"].get("task.precision") == "bfloat16":
            label = f"{EPOCHS} bfloat16, recorded: the sampling of {run['method']} below"
            goals.append(Goal(label, [run["seconds"]["sampling"] / run["steps"] * EPOCH], 1.5, False))
    for count in (1_000, 100_000):
        ours, theirs = cases.last("chains", **CHAINS, chains=count), cases.last("blackjax", **PEER, chains=count)
        ratio = [theirs["us_a_step"] / ours["us_a_step"]] if ours and theirs else []
        label = f"SGLD on mixture25, recorded, {plural(count)}, speed over blackjax (vmap, float64)"
        goals.append(Goal(label, ratio, 1, True, WHY_CHAINS))
    return goals


def _why(cases: Cases) -> str:
    session, case, normalisation = _normalisation(cases, "bfloat16")
    ms = cases.ms(BFLOAT16, session)
    return (
        f"the GPU is busy: its kernels take {_most(case)}{number(case['gpu_us'] / 1e3)} of the {number(ms)} ms of a "
        f"step, and torch's own batch normalisation, which it uses in bfloat16 in place of cuDNN's, "
        f"{number(normalisation / 1e3)} ms of that (session {session})."
    )


def _most(case: Mapping[str, Any]) -> str:
    return "at most " if case.get("bound") else ""


def _normalisation(cases: Cases, precision: str) -> tuple[int, Mapping[str, Any], float]:
    """The last profile, and the microseconds of its kernels of batch normalisation."""
    session, case = next(p for p in reversed(cases.of("profile")) if p[1]["asked"]["precision"] == precision)
    return session, case, sum(us for us, _, name in case["top"] if "batch_norm" in name or "batchnorm" in name)


def _findings(cases: Cases) -> list[str]:
    findings = (_modes, _paid, _share, _taking_turns, _out_of_memory)
    return [text for make in findings if (text := _measured(lambda make=make: make(cases)))]


def _modes(cases: Cases) -> str:
    kinds = {"float32": {**TF32, "tf32": False}, "TF32": TF32, "bfloat16": BFLOAT16}
    session = next(n for n, case in cases.of("steps") if case["asked"]["mode"] == "plain")
    rows = [["ms a step", *kinds]]
    for label, other in (("recorded, channels last", {}), ("recorded, channels first", {"last": False}),
                         ("plain, channels last", {"mode": "plain"})):  # fmt: skip
        rows.append([label, *(number(cases.ms({**how, **other}, session)) for how in kinds.values())])
    return f"{grid(rows)}\n\nSession {session}; ResNet-18, batches of 64."


def _paid(cases: Cases) -> str:
    """After how many epochs run.compile=network has earned its compilation."""
    session = next(n for n, case in cases.of("network"))
    took = [case["took"] for _, case in cases.of("network")]
    gains = {name: cases.epoch(how, session) - cases.epoch({**how, "mode": "network"}, session)
             for name, how in (("TF32", TF32), ("bfloat16", BFLOAT16))}  # fmt: skip
    saved = " and ".join(f"{number(gain)} s in {name}" for name, gain in gains.items())
    epochs = min(took) / max(gains.values()), max(took) / min(gains.values())
    return (
        f"**run.compile=network** saves {saved} an epoch. Its cases took {number(min(took))} to {number(max(took))} s, "
        f"mostly for compilation, so it pays after {epochs[0]:.0f} to {epochs[1]:.0f} epochs (session {session})."
    )


def _taking_turns(cases: Cases) -> str:
    several = [case for _, case in cases.of("rows") if case["asked"]["what"] == "chains"]
    texts = [f"{number(statistics.median(case['ms_a_chain']))} with {case['asked']['chains']}" for case in several]
    return f"**Several chains of a network** in one process take turns: ms a chain {', '.join(texts)}." if texts else ""


def _out_of_memory(cases: Cases) -> str:
    ended = {case["asked"]["when"]: case["ended"] for _, case in cases.of("memory") if "ended" in case}
    names = {when: " by ".join(text.partition(":")[0] for text in texts) for when, texts in ended.items()}
    listed = "; ".join(f"{when}: {name}" for when, name in names.items())
    after = "; the process can go on" if cases.last("memory", when="afterwards") else ""
    return f"**Lacking memory** ends in an error of torch ({listed}){after}." if listed else ""


def _share(cases: Cases) -> str:
    parts = []
    for name, how in (("TF32", TF32), ("bfloat16", BFLOAT16)):
        session, _, microseconds = _normalisation(cases, how["precision"])
        ms = microseconds / 1e3
        parts.append(f"{number(ms)} ms in {name}, {ms / cases.ms(how, session):.0%} of a recorded step")
    failed = sorted({case["asked"]["bytes"] for _, case in cases.all if case["block"] == "align" and "error" in case})
    at = " or ".join(map(str, failed))
    aligned = f" cuDNN's fails if its weights or statistics start {at} bytes after an aligned address." if at else ""
    return f"**Batch normalisation** takes {'; '.join(parts)}.{aligned}"


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    from harness import registry
    from plugins.papers.files import paths, read
    from plugins.papers.reported import load_cells

    cells = load_cells(read(paths(registry()))[0])
    rows = [["run", "epochs", "settings that differ", "draws", "metric", "printed", "ours", "sampling, s", "whole, s"]]
    for run in runs:
        _, steps, epoch = RUNS[run["method"]]
        settings = ", ".join(f"{name}={value}" for name, value in run["settings"].items())
        printed = {cell.metric: cell for cell in reversed(cells) if cell.metric in run["metrics"]
                   and (cell.method, cell.task, cell.protocol, cell.chains or 1)
                   == (run["method"], run["task"], run["protocol"], 1)}  # fmt: skip
        for name, cell in printed.items():
            rows.append([
                f"{run['method']} on {run['task']}@{run['protocol']}, seed {run['seed']}",
                f"{run['steps'] // epoch} of {steps // epoch}", settings, str(run["draws_kept"]),
                f"{name} ({cell.table})", cell.text, number(run["metrics"][name]), number(run["seconds"]["sampling"]),
                number(sum(run["seconds"].values())),
            ])  # fmt: skip
    where = {f"{run['gpu']}, torch {run['torch']}, {run['finished'][:10]}, commit {run['code']}" for run in runs}
    return f"{grid(rows)}\n\n{'; '.join(sorted(where))}."


def _steps(cases: Cases, peak: Mapping[str, Any], operations: float) -> str:
    head = "precision, steps, channels, batch, session, ms a step round by round, host ms, s an epoch, of the peak, MB"
    rows = [[*head.split(", "), "case, s"]]
    for session, case in cases.of("steps", "network"):
        how, ms = case["asked"], statistics.median(case["ms"])
        name = "TF32" if how["tf32"] else how["precision"]
        share = operations * how["batch"] / 64 / (1e9 * ms * peak[name.lower()]) if peak else None
        rows.append([
            name, MODES[how["mode"]], "last" if how["last"] else "first", str(how["batch"]), str(session),
            ", ".join(map(number, case["ms"])), number(statistics.median(case["host_ms"])),
            number(50_000 / how["batch"] * ms / 1e3), f"{share:.0%}" if share else "", number(case.get("memory", 0.0)),
            number(case["took"]) if "took" in case and how["mode"] == "network" else "",
        ])  # fmt: skip
    return grid(rows)


def _profile(cases: Cases) -> str:
    texts = []
    for session, case in cases.of("profile"):
        how = case["asked"]
        name = "TF32" if how["tf32"] else how["precision"]
        rows = [["kernel", "calls a step", "us a step"]]
        rows += [[f"`{key.replace('|', ' ')[:90]}`", number(calls), number(us)] for us, calls, key in case["top"][:12]]
        texts.append(
            f"**{name}**, session {session}: {_most(case)}{number(case['gpu_us'] / 1e3)} ms of kernels a step; the "
            f"first {len(rows) - 1}:\n\n{grid(rows)}"
        )
    return "\n\n".join(texts)


def _aligned(cases: Cases) -> str:
    outcomes: dict[str, dict[int, set[str]]] = {}
    for _, case in cases.all:
        if case["block"] == "align":
            how = case["asked"]
            outcome = "fails" if "error" in case else "works"
            outcomes.setdefault(PLACES[how["what"]], {}).setdefault(how["bytes"], set()).add(outcome)
    if not outcomes:
        return "Not measured."
    starts = sorted({start for row in outcomes.values() for start in row})
    rows = [[what, *(" or ".join(sorted(row.get(start, ()))) for start in starts)] for what, row in outcomes.items()]
    return grid([["starting after", *(f"{start} bytes" for start in starts)], *rows])


def _predict(cases: Cases) -> str:
    kinds = [("TF32", True), ("bfloat16", False)]
    sizes = sorted({case["asked"]["stretch"] for _, case in cases.of("predict")})
    rows = [["images at a time", *(f"{name}, ms" for name, _ in kinds)]]
    for size in sizes:
        pair = [cases.last("predict", tf32=tf32, stretch=size) for _, tf32 in kinds]
        rows.append([f"{size:,}", *(number(1e3 * case["seconds"]) if case else "" for case in pair)])
    return grid(rows)


def _several(cases: Cases) -> str:
    rows = [["precision", "session", "chains", "ms a chain"]]
    for session, case in cases.of("rows"):
        how = case["asked"]
        if how["what"] == "chains":
            name = "TF32" if how["tf32"] else how["precision"]
            rows.append([name, str(session), str(how["chains"]), spread(case["ms_a_chain"])])
    equal = {case["asked"]["precision"]: case["equal"] for _, case in cases.of("rows") if "equal" in case}
    bits = ", ".join(f"{name}: {'equal' if same else 'not equal'}" for name, same in equal.items())
    return f"{grid(rows)}\n\nThe bits of the gradients of two chains with the same weights and batch: {bits}."


def _chains(cases: Cases) -> str:
    rows = [["", "numbers", "chains", "session", "us a step", "million chain-steps a second", "ready after, s"]]
    for session, case in cases.of("chains", "blackjax"):
        how = case["asked"]
        form = MODES[how["mode"]] if how["library"] == "bench" else how["form"]
        rows.append([
            f"{how['library']} ({form}), {how['sampler']}", how["dtype"], f"{how['chains']:,}", str(session),
            number(case["us_a_step"]), number(how["chains"] / case["us_a_step"]),
            number(case["ready"]) if "ready" in case else "",
        ])  # fmt: skip
    return grid(rows)


SUMMARY = """\
## GPU

{machine}; {sessions}. One process on one GPU. [gpu.json](benchmarks/gpu.json) has every number, and
[the tables](benchmarks/tables.md#gpu) have notes on the sessions, steps by precision, mode and memory order, kernels,
predictions and other samplers. `python tests/benchmarks/gpu.py run` measures them anew.

{goals}

{findings}

### Runs

Runs of the papers' methods, shorter than the papers' and with one seed: no verdict follows from them.

{runs}
"""

ALL = ("float32", "tf32", "bfloat16", "copy")
PEAKS = """\
Peaks, measured here: products of two 8,192 x 8,192 matrices, 10^12 operations a second: float32 {float32}, TF32
{tf32}, bfloat16 {bfloat16}; a copy reads and writes {copy} TB a second."""

SECTION = """\
## GPU

{machine}. The goals and the runs are in [benchmarks.md](../benchmarks.md#gpu).

{notes}

{peaks}

### Steps of ResNet-18

MSGLD on images that are noise. *Host* is the time until the last step of a round is launched; *of the peak* is the
share of the products' peak at the same precision that a step's products and convolutions reach. An epoch is 50,000
images. *Case* is the time of a whole case that compiles the network.

{steps}

### Kernels

By torch's profiler, over five recorded steps.

{profile}

### Alignment

Forward and backward in float32 and TF32, a process each, for tensors that start some bytes after an aligned address:

{aligned}

### Predictions

For 10,000 images of 32 x 32 by one draw:

{predict}

### Several chains of a network

{several}

### Samplers on mixture25

The analytic gradient without noise; no draw is kept, by ours or by blackjax.

{chains}
"""
