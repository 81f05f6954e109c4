"""How often the laws of `bench check` that go by random numbers would fail a right sampler, with other seeds.

    python tests/false_alarms.py --repeats 1000 sgld sghmc ...
    python tests/false_alarms.py --law whole-law --seconds 120 sgld sgnht ...

The seeds of the laws are fixed, so the result is reproducible; this script tries other seeds. A repeat is an alarm
where the law would fail, after all its looks; a right error model gives at most one in a thousand. For `real-loop` it
also counts the repeats whose first look would fail at ten times the level: more than one in a hundred would show that
the errors are larger than the law takes them to be. For the simulated laws, which are expensive to repeat, it also
counts all p-values, and how many of them are below .01 and .001 (for `time-homogeneity` those of the first look).

Many repeats of `real-loop` are the runs of one loop. What is not an exact repeat is how streams are made, which would
take most of the time: the chains of a loop share each stream, in turn.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch

from harness.contracts.randomness import Streams
from harness.contracts.registry import load, registry
from plugins.checking import gaussian
from plugins.checking.law import Broken, frozen, streams
from plugins.checking.samplers import homogeneity, whole
from plugins.checking.samplers.exact import experiments
from plugins.checking.samplers.real_loop import GREY, GROWTH, LEVEL, more

TOGETHER = 20
"""Repeats in one loop."""

HEAD = {
    "real-loop": f"{'sampler':20} {'repeats':>8} {'at 10 x level':>14} {'second looks':>13} {'alarms':>7} "
    f"{'s each':>7}",
    "whole-law": f"{'sampler':20} {'repeats':>8} {'p-values':>9} {'below .01':>10} {'below .001':>11} {'alarms':>7} "
    f"{'s each':>7}",
}
HEAD["time-homogeneity"] = HEAD["whole-law"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first repeat: repeats are counted from 0")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each sampler; then its repeats end")
    parser.add_argument("--law", choices=list(HEAD), default="real-loop")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.write(f"{HEAD[asked.law]}\n")
    repeated = paths if asked.law == "real-loop" else simulated
    for name in asked.names or [offer.name for offer in registry().offers("samplers")]:
        (offer,) = (offer for offer in registry().offers("samplers") if offer.name == name)
        sys.stdout.write(f"{name:20} {repeated(load(offer.info.target)(), asked)}\n")
        sys.stdout.flush()


def paths(sampler, asked):
    if not (family := experiments(frozen(sampler))):
        return f"{'-':>8} not linear and not a Metropolis kernel"
    began, tally, done = time.monotonic(), np.zeros(3, dtype=int), 0
    with Quick(shared=True):
        while done < asked.repeats and time.monotonic() - began < asked.seconds:
            some = range(asked.first + done, asked.first + min(done + TOGETHER, asked.repeats))
            tally += tried(family, some)
            done += len(some)
    near, second, alarms = tally
    return f"{done:8} {near:14} {second:13} {alarms:7} {(time.monotonic() - began) / done:7.3f}"


def tried(family, repeats):
    """Repeats with a p-value under ten times the level, with a second look, and with an alarm."""
    near, second, alarms = (np.zeros(len(repeats), dtype=bool) for _ in range(3))
    for experiment in family:
        for i, p_values in enumerate(outcomes(experiment, [(1 + GROWTH) * repeat + 11 for repeat in repeats])):
            p = worst(p_values, len(family))
            near[i] |= p < 10 * LEVEL
            alarms[i] |= p < LEVEL / 2
            if LEVEL / 2 <= p < GREY:
                second[i] = True
                (again,) = outcomes(more(experiment), [(1 + GROWTH) * repeats[i] + 12])
                alarms[i] |= worst(again, len(family)) < LEVEL / 2
    return np.array([column.sum() for column in (near, second, alarms)])


def simulated(sampler, asked):
    """Every p-value of every repeat of the whole law, or of the long run."""
    began, done, alarms, all_ps = time.monotonic(), 0, 0, []
    while done < asked.repeats and time.monotonic() - began < asked.seconds:
        seed = 50_000 + asked.first + done
        if asked.law == "time-homogeneity":
            ps, failed = long_run(sampler, seed)
            alarms += failed
        else:
            family, ps = whole.simulations(sampler), []
            try:
                whole.judged(family, seed)
            except Broken:
                alarms += 1
            for simulation in family:
                ps += simulation.p_values().values() if simulation.levels else []
        all_ps += ps
        done += 1
    ps = np.array(all_ps)
    each = (time.monotonic() - began) / done
    return f"{done:8} {len(ps):9} {(ps < 0.01).sum():10} {(ps < 0.001).sum():11} {alarms:7} {each:7.1f}"


def long_run(sampler, seed):
    """The p-values of the first look at the long run, and whether the law fails, after a second look if it has one."""
    looks, windows = [], homogeneity.windows

    def kept(*asked):
        looks.append(windows(*asked))
        return looks[-1]

    homogeneity.windows = kept
    try:
        homogeneity.long_run(sampler, seed)
    except Broken:
        failed = True
    else:
        failed = False
    finally:
        homogeneity.windows = windows
    return list(looks[0].p_values().values()) if looks else [], failed


def outcomes(experiment, seeds):
    return experiment.p_values([chain for seed in seeds for chain in streams(experiment.chains, seed)])


def worst(p_values, experiments):
    """The least p-value, times how many there are: what the law holds against its level."""
    if isinstance(p_values, Exception):
        return 0.0 if isinstance(p_values, Broken) else 1.0
    return experiments * len(p_values) * min(p_values.values())


class Quick:
    """Streams that are cheap to make, as the head of this file has it."""

    def __init__(self, shared):
        self.shared = shared
        self.streams = {}

    def __enter__(self):
        self.torch, self.numpy, self.states, self.load = (
            Streams.torch,
            Streams.numpy,
            gaussian.states,
            gaussian.load_states,
        )
        Streams.torch = self.kept(lambda streams, name: torch.Generator().manual_seed(_short(streams, name)))
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

        def stream(streams, name, *_, **__):
            if not self.shared:
                return make(streams, name)
            key = (make, streams.seed, streams.axes, name)
            if streams.chain == 0:
                self.streams[key] = make(streams, name)
            return self.streams[key]

        return stream


def _short(streams, name):
    return int.from_bytes(streams.digest(name)[:4], "big")


if __name__ == "__main__":
    main()
