"""What the harness's plain loop costs over bare torch loops: all three in one process, block by block in turn.

In one process, for the price of a call into torch differs by several per cent from process to process.
"""

from __future__ import annotations

import json
import sys
import time

import bare
import stepping
from serving import Work
from setting import Case, pin

FORMS = ("same arithmetic", "by hand")


def measure(chains: int, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Time of ours over that of each form of `bare`, round by round."""
    works = {"ours": stepping.prepare(Case("bench", "sgld", chains, "plain"))}
    works |= {form: bare.prepare(Case("torch", "sgld", chains, form)) for form in FORMS}
    for work in works.values():
        work.advance()
    ratios: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(rounds):
        spent = dict.fromkeys(works, 0.0)
        while min(spent.values()) < seconds:
            for name, work in works.items():
                spent[name] += processor_seconds(work)
        for form in FORMS:
            ratios[form].append(spent["ours"] / spent[form])
    return ratios


def processor_seconds(work: Work) -> float:
    began = time.process_time()
    work.advance()
    return time.process_time() - began


if __name__ == "__main__":
    pin()
    chains, rounds, seconds = sys.argv[1:]
    sys.stdout.write(json.dumps(measure(int(chains), int(rounds), float(seconds))) + "\n")
