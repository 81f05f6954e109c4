"""How often the statistical law of `bench check` would fail a right sampler, by repeating it with other seeds.

    python tests/false_alarms.py --repeats 1000 sgld sghmc ...

The law has fixed seeds, so a built-in passes or fails for ever; this says how lucky those seeds had to be. A repeat is
an alarm where an experiment fails both of its tries, as the law has it. Beside it stand the first tries that fail, of
which a right error model gives one in a thousand for each family of experiments, and those that would at ten times the
level, one in a hundred: more would say that the errors are larger than the law takes them to be.

Many repeats are the runs of one loop. What is not an exact repeat is how streams are made, which would take most of the
time: where the law is exact the chains of a loop share each stream, in turn, and elsewhere a torch generator keeps 32
bits of its seed.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch

from harness.conformance import gaussian
from harness.conformance.law import Broken, Skip, streams
from harness.conformance.laws.real_loop import LEVEL, families
from harness.randomness import Streams
from harness.registry import load, registry

TOGETHER = {"exact": 20, "simulated": 4}
"""Repeats in one loop; draws of a long run take some 100 MB each."""

HEAD = (
    f"{'sampler':20} {'repeats':>8} {'at 10 x level':>14} {'first tries':>12} {'alarms':>7} {'silent':>7} {'s each':>7}"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first repeat: repeats are counted from 0")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each sampler; then its repeats end")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.write(f"{HEAD}  law\n")
    for name in asked.names or [offer.name for offer in registry().offers("samplers")]:
        (offer,) = (offer for offer in registry().offers("samplers") if offer.name == name)
        sys.stdout.write(f"{name:20} {repeated(load(offer.info.target)(), asked)}\n")
        sys.stdout.flush()


def repeated(sampler, asked):
    try:
        found = families(sampler)
    except Skip as reason:
        return f"{'-':>8} {reason}"
    exact, law = True, "exact"
    began, tally, done = time.monotonic(), np.zeros(4, dtype=int), 0
    with Quick(exact):
        while done < asked.repeats and time.monotonic() - began < asked.seconds:
            some = range(asked.first + done, asked.first + min(done + TOGETHER[law], asked.repeats))
            tally += sum(tried(family, some) for family in found)
            done += len(some)
    near, first, alarms, silent = tally
    each = (time.monotonic() - began) / done
    return f"{done:8} {near:14} {first:12} {alarms:7} {silent:7} {each:7.3f}  {law}"


def tried(family, repeats):
    """Repeats with a p-value under ten times the level, with one under it, with an alarm, and without a verdict."""
    near, first, alarms, silent = (np.zeros(len(repeats), dtype=bool) for _ in range(4))
    for experiment in family:
        for i, found in enumerate(outcomes(experiment, [2 * repeat + 11 for repeat in repeats])):
            silent[i] |= isinstance(found, Skip)
            near[i] |= worst(found, len(family)) < 10 * LEVEL
            if worst(found, len(family)) < LEVEL:
                first[i] = True
                alarms[i] |= worst(outcomes(experiment, [2 * repeats[i] + 12])[0], 1) < LEVEL
    return np.array([column.sum() for column in (near, first, alarms, silent)])


def outcomes(experiment, seeds):
    return experiment.p_values([chain for seed in seeds for chain in streams(experiment.chains, seed)])


def worst(found, experiments):
    """The least p-value, times how many there are: what the law holds against its level."""
    if isinstance(found, Exception):
        return 0.0 if isinstance(found, Broken) else 1.0
    return experiments * len(found) * min(found.values())


class Quick:
    """Streams that are cheap to make, as the head of this file has it."""

    def __init__(self, shared):
        self.shared = shared
        self.made = {}

    def __enter__(self):
        self.torch, self.numpy, self.states, self.load = (
            Streams.torch,
            Streams.numpy,
            gaussian.states,
            gaussian.load_states,
        )
        Streams.torch = self.kept(lambda own, name: torch.Generator().manual_seed(_short(own, name)))
        Streams.numpy = self.kept(self.numpy)
        if self.shared:
            gaussian.states = lambda generators: self.states(generators[:1])
            gaussian.load_states = lambda generators, states: self.load(generators[:1], states)

    def __exit__(self, *_):
        Streams.torch, Streams.numpy, gaussian.states, gaussian.load_states = (
            self.torch,
            self.numpy,
            self.states,
            self.load,
        )

    def kept(self, make):
        """`make`, asked once for all the chains of a seed, if they share it: the first chain begins anew."""

        def stream(own, name, *_, **__):
            if not self.shared:
                return make(own, name)
            key = (make, own.seed, own.axes, name)
            if own.chain == 0:
                self.made[key] = make(own, name)
            return self.made[key]

        return stream


def _short(own, name):
    return int.from_bytes(own.digest(name)[:4], "big")


if __name__ == "__main__":
    main()
