"""The second half of the law restore: a fresh process that continues from checkpoints.

`python -m plugins.checking.resume FOLDER` reads FOLDER/jobs.json, a list of samplers. For the i-th it continues from
i.safetensors to the end of the path, and writes i.end.safetensors, or i.error if that fails.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from torch import Tensor

from harness import Sampler
from harness.engine import Loop
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, loop, trajectory, varying

CHAINS = 3
BLOCKS = [(0, 6), (6, 10), (10, 16)]
"""The first and last steps of blocks. The checkpoint is taken after the first block, while the sampler still adapts;
the burn-in ends with the second."""


def start(sampler: Sampler) -> Loop:
    """Return a loop whose step size and temperature change at every step."""
    task = GaussianTask(variance=0.5)
    steps = BLOCKS[-1][1]
    path = trajectory(varying(sampler, task, steps), 1 + 0.1 * np.arange(steps, dtype=np.float64), burn_in=BLOCKS[1][1])
    running = loop(sampler, task, path, CHAINS)
    running.stage.ends = dict(BLOCKS)
    return running


def end(running: Loop) -> dict[str, Tensor]:
    """Run the rest of a path; return the position and the state at its end."""
    while not running.finished:
        running.advance_block()
    leaves = {"theta": running.theta} | {f"state/{name}": leaf for name, leaf in running.state.items()}
    return {name: leaf.contiguous().clone() for name, leaf in leaves.items()}


def describe(sampler: Sampler) -> dict[str, Any]:
    """Return what another process needs to make the same sampler; raise `Broken` if none can make it."""
    kind = type(sampler)
    if "<locals>" in kind.__qualname__:
        raise Broken(f"{kind.__qualname__} is defined within a function: no other process can make it")
    return {
        "module": kind.__module__,
        "file": getattr(sys.modules[kind.__module__], "__file__", None),
        "name": kind.__qualname__,
        "values": {f.name: getattr(sampler, f.name) for f in dataclasses.fields(sampler) if f.init},
    }


def make(description: dict[str, Any]) -> Sampler:
    """Return the sampler of a description. Its module is found by name or, for a one-off file, by its path."""
    name = description["module"]
    try:
        module = importlib.import_module(name) if name != "__main__" else None
    except ImportError:
        module = None
    if module is None:
        spec = importlib.util.spec_from_file_location(f"plugin_{name.strip('_')}", description["file"])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    kind: Any = reduce(getattr, description["name"].split("."), module)
    return kind(**description["values"])


def main(folder: Path) -> None:
    """Run all jobs of a folder."""
    for i, description in enumerate(json.loads((folder / "jobs.json").read_text())):
        if description is None:
            continue
        try:
            running = start(make(description))
            running.restore([safetensors.torch.load_file(folder / f"{i}.safetensors")])
            safetensors.torch.save_file(end(running), folder / f"{i}.end.safetensors")
        except Exception as error:  # noqa: BLE001 - the parent process reports it as a broken law
            (folder / f"{i}.error").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
