"""The figures of a campaign, as the generated part of a page in docs/reliability."""

import importlib.metadata
import statistics
from collections import Counter
from datetime import UTC, datetime

from crash.invariants import COUNTS

from harness.results.environment import collect

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
PACKAGES = ("sgmcmc-bench", "torch", "numpy", "duckdb", "safetensors")


def machine():
    """Where a campaign ran: processor, cores, system, versions."""
    here = collect("cpu", ())
    versions = {"python": here["python"]} | {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"cpu": here["cpu"], "cores": here["cores"], "system": here["platform"], "versions": versions}


def write(path, report):
    """Replace what stands between the two marks of a Markdown file. `ValueError` without the marks."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{path} lacks {END if begin else BEGIN}")
    path.write_text(f"{before}{begin}\n{markdown(report)}{end}{after}", encoding="utf-8")


def markdown(report):
    """The figures: where and when, what went wrong by kind, the moments, a row for each fault."""
    rounds, where = report["rounds"], report["machine"]
    day = datetime.fromtimestamp(report["began"], UTC).date()
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    total = _sums(rounds)
    moments = Counter(stage for record in rounds for stage in record["stages"] if not stage.lstrip("-").isdigit())
    seconds = statistics.median(record["seconds"] for record in rounds)
    longest = max(record["longest_end"] for record in rounds)
    lines = [
        f"{len(rounds)} rounds on {day}, seed {report['seed']}, in {report['seconds'] / 60:.0f} minutes.",
        f"{where['cores']} cores of {where['cpu']}, {where['system']}; {versions}.",
        "",
        f"{total['strikes']:,} faults, {total['commands']:,} commands, {total['runs']:,} runs.",
        f"{total['finished_before']:,} were finished before the last fault, {total['resumed']:,} were resumed.",
        f"A round took {seconds:.0f} s (median); no process was left {longest:.1f} s after a fault.",
        "",
        "| found wrong | times |",
        "|---|---|",
        *(f"| {words} | {_complaints(rounds, kind)} |" for kind, words in COUNTS.items()),
        "",
        f"Moments of the faults: {', '.join(f'{stage} {number}' for stage, number in moments.most_common())}.",
        "",
        "| fault | rounds | faults | runs | finished before | resumed | rounds with anything wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for fault in sorted({record["fault"] for record in rounds}, key=str.lower):
        some = [record for record in rounds if record["fault"] == fault]
        sums = _sums(some)
        cells = [len(some), sums["strikes"], sums["runs"], sums["finished_before"], sums["resumed"]]
        lines.append(f"| {fault} | {' | '.join(map(str, cells))} | {sum(not record['right'] for record in some)} |")
    return "\n".join(lines) + "\n"


def _sums(rounds):
    names = ("strikes", "commands", "runs", "finished_before", "resumed")
    return {name: sum(record[name] for record in rounds) for name in names}


def _complaints(rounds, kind):
    return sum(len(record["complaints"][kind]) for record in rounds)
