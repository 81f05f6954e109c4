"""Hold every planted bug to every law, and print which find it: `PYTHONPATH=tests python -m planted.matrix [NAME...]`.

With --first the laws are tried in their order and the first that finds a bug ends it; that is what `bench check` of the
bug would say first. One line a bug; bugs that no law finds come last.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from planted.table import BUGS
from plugins.laws.suite import LAWS, check_samplers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="bugs; default: all")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--without", nargs="*", default=[], help="laws to leave out")
    parser.add_argument("--verbose", action="store_true", help="print what the laws say")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    laws = [law.name for law in LAWS if law.name not in asked.without]
    lost = []
    for bug in BUGS:
        if asked.names and bug.name not in asked.names:
            continue
        began, found = time.perf_counter(), []
        for law in laws:
            (result,) = check_samplers([bug.sampler()], [law])[0]
            if asked.verbose and result.outcome != "passed":
                say(f"    {law}: {result.outcome}: {result.message}")
            if result.outcome == "failed":
                found.append(law)
                if asked.first:
                    break
        if not found:
            lost.append(bug.name)
        expected = " ".join(bug.laws) or f"awaits {bug.awaits}" if not (bug.unseen or bug.right) else "none"
        seconds = time.perf_counter() - began
        surprise = "" if (set(bug.laws) & set(found) or not (bug.laws or found)) else "   <---"
        say(f"{bug.name:42} {seconds:6.1f} s  {' '.join(found) or '-':50} expected: {expected}{surprise}")
    say(f"{len(lost)} not found: {', '.join(lost)}")


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
