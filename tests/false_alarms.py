"""How often the statistical law of `bench check` would fail a right sampler, by repeating it with other seeds.

    python tests/false_alarms.py --repeats 1000 sgld sghmc ...

The law has fixed seeds, so a built-in passes or fails for ever; this says how lucky those seeds had to be. A repeat is
an alarm where both of its tries fail, as the law has it; the share of first tries that fail stands beside it.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from harness.conformance.law import Skip
from harness.conformance.laws import stationary
from harness.conformance.laws.real_loop import LEVEL, is_exact, p_values, settings_for
from harness.conformance.linear import frozen
from harness.registry import load, registry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each sampler; then its repeats end")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.write(f"{'sampler':20} {'repeats':>8} {'first tries that fail':>22} {'alarms':>7}  law\n")
    for offer in registry().offers("samplers"):
        if not asked.names or offer.name in asked.names:
            found = repeated(load(offer.info.target)(), asked.repeats, asked.seconds)
            sys.stdout.write(f"{offer.name:20} {found}\n")
            sys.stdout.flush()


def repeated(sampler, repeats, seconds):
    sampler, settings = frozen(sampler), settings_for(sampler)
    exact = is_exact(sampler, settings)
    if not exact and not sampler.limit_bias():
        return f"{'-':>8} {'-':>22} {'-':>7}  none"
    cases = settings if exact else stationary.targets(sampler)
    tested = p_values if exact else stationary.p_values
    began, first_fails, alarms, done = time.monotonic(), 0, 0, 0
    for repeat in range(repeats):
        if time.monotonic() - began > seconds:
            break
        try:
            failed = [case for case in cases if fails(tested(sampler, case, 2 * repeat + 11), len(cases))]
            first_fails += bool(failed)
            alarms += any(fails(tested(sampler, case, 2 * repeat + 12), 1) for case in failed)
        except Skip:
            continue
        done += 1
    return f"{done:8} {first_fails:22} {alarms:7}  {'exact' if exact else 'simulated'}"


def fails(found, cases):
    return min(found.values()) < LEVEL / (cases * len(found))


if __name__ == "__main__":
    main()
