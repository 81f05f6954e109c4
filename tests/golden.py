"""The hashes of the built-in plugins that run keys are made of, as they were when keys last changed on purpose.

    python tests/golden.py equal      after an edit that changes no bit, metrics included, as `bench replay` of a run
                                      from before it says: the keys stay, by equal_sources.json
    python tests/golden.py engine     after ENGINE was raised: new numbers, the plugins' hashes stay
    python tests/golden.py new        after an edit of plugins that changes numbers: new keys
    python tests/golden.py new tasks.vision.landsat:Landsat    new keys of these classes alone

tests/contract/test_golden.py holds the hashes and the numbers of short runs.
"""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from support import make_loop, run_loop

from harness.contracts.registry import load, registry
from harness.results.spec import ENGINE
from harness.runs.source import EQUAL, content_hash
from plugins.schedules.cyclical import Cyclical

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("golden.json")
INFOS = {
    kind: {offer.name: offer.info for offer in registry().offers(kind)} for kind in ("samplers", "schedules", "tasks")
}
TASKS = (
    "bimodal1d",
    "blr-a9a",
    "blr-heart",
    "energy",
    "gaussian2d",
    "landsat",
    "mixture2d",
    "mixture25",
    "mixture5",
    "ravine",
)
"""Those whose steps are quick."""
ON_DATA = {
    "dq-sgld": "blr-heart", "laplace": "blr-heart", "last-layer-laplace": "landsat",
    "last-layer-laplace-signs": "landsat", "mc-dropout": "landsat", "sg-barker-corrected": "blr-heart",
    "sgfs": "blr-heart", "sgrld": "blr-heart",
}  # fmt: skip
"""They need what a density does not have."""
LAST = {"last-layer-laplace", "last-layer-laplace-signs"}
"""Their first weights are those of SGD, so the last ones are taken."""
STEPS = 40
SHIFT = 1e-9
STEP = {"landsat": 1e-6, "blr-a9a": 1e-6, "energy": 1e-7, "ravine": 1e-7}


def read():
    return json.loads(FILE.read_text()) if FILE.exists() else {"sources": {}}


def double(task, shift):
    """A task in float64, whose kernels differ by rounding that is far below any change; it starts off by `shift`."""
    kind = type(task)

    def start(self, generator):
        from_task = kind.start(self, generator)
        signs = 2 * torch.randint(0, 2, from_task.shape, generator=torch.Generator().manual_seed(1)).double() - 1
        return from_task * (1 + shift * signs)

    derived = type(kind.__name__, (kind,), {"dtype": "float64", "start": start, "__module__": kind.__module__})
    return derived(**{f.name: getattr(task, f.name) for f in fields(task)})


def numbers(sampler, task, step, shift=0.0):
    """The end of two chains of `STEPS` steps in two cycles."""
    sampler_and_task = load(INFOS["samplers"][sampler].target)(), double(load(INFOS["tasks"][task].target)(), shift)
    schedule = Cyclical(step_size=step, cycles=2, beta=0.2, explore_with_noise=True)
    loop = make_loop(sampler_and_task[1], sampler_and_task[0], schedule, STEPS, seeds=(7,), burn_in=5)
    part = slice(-4, None) if sampler in LAST else slice(4)
    return [float(x) for x in run_loop(loop).theta[:, part].flatten()]


def of_sampler(name, shift=0.0):
    task = ON_DATA.get(name, "mixture5")
    return numbers(name, task, STEP.get(task, 1e-3), shift)


def of_task(name, shift=0.0):
    return numbers("sgld", name, STEP.get(name, 1e-3), shift)


def growth(of, name):
    """What a difference of the start has grown by at the end, relative to the largest number."""
    plain, shifted = (np.array(of(name, shift)) for shift in (0.0, SHIFT))
    return float(np.abs(shifted - plain).max() / np.abs(plain).max() / SHIFT)


def contents():
    """{class: hash of its code} of every built-in sampler, schedule and task."""
    return {info.target: content_hash(info.target) for infos in INFOS.values() for info in infos.values()}


def kept(golden):
    """Return the golden hashes, with those of new plugins; one in a file with others has the hash of these."""
    hashes = contents()
    of_file = {hashes[target]: digest for target, digest in golden.items() if target in hashes}
    return {target: of_file.get(digest, digest) for target, digest in hashes.items()} | golden


def keep(golden):
    """Declare today's code equal to the code of the golden hashes."""
    hashes = contents()
    for top in sorted({target.partition(".")[0] for target in hashes}):
        equal = {
            digest: golden[target]
            for target, digest in sorted(hashes.items())
            if target.startswith(f"{top}.") and golden.get(target, digest) != digest
        }
        path = ROOT / top / EQUAL
        path.write_text(f"{json.dumps(equal, indent=1)}\n") if equal else path.unlink(missing_ok=True)


def main(how, targets):
    golden, hashes = read(), contents()
    changed = set(targets or hashes) if how == "new" else set()
    golden["sources"] = kept(golden["sources"]) | {target: hashes[target] for target in changed}
    if how != "equal":
        golden |= {"engine": ENGINE, "growth": golden.get("growth", {})}
        for kind, of, names in (("samplers", of_sampler, INFOS["samplers"]), ("tasks", of_task, TASKS)):
            again = [name for name in names if not targets or INFOS[kind][name].target in targets]
            for part, value in ((golden, of), (golden["growth"], functools.partial(growth, of))):
                before = part.get(kind, {}) if targets else {}
                part[kind] = before | {name: value(name) for name in again}
    FILE.write_text(f"{json.dumps(golden, indent=1, sort_keys=True)}\n")
    keep(golden["sources"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
