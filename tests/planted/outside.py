"""sgld that looks at what it is not given: the environment, the clock, files, and what the harness keeps from it."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch

from planted import planted
from planted.plain import Plain

# environment


class Outside(Plain):
    def look(self, potential):
        """A factor on the noise, 1 most of the time."""
        return 1.0

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T * self.look(potential), noise)


@planted("environment", "isolation")
class ReadsAnEnvironmentVariable(Outside):
    """The noise depends on an environment variable."""

    def look(self, potential):
        return 0.9 if os.environ.get("NIGHTLY") else 1.0


@planted("environment", "isolation")
class ReadsTheClock(Outside):
    """The noise shrinks after a certain date."""

    def look(self, potential):
        return 0.9 if time.time() > 4e9 else 1.0


@planted("environment", "isolation")
class ReadsAFile(Outside):
    """The noise depends on whether a file is there."""

    def look(self, potential):
        try:
            return float(Path("heat.txt").read_text())
        except OSError:
            return 1.0


@planted("environment", "isolation")
class LooksForAFile(Outside):
    """The noise depends on whether a folder of data is there."""

    def look(self, potential):
        return 0.9 if Path("cifar-10-batches-py").exists() else 1.0


@planted("environment", "isolation")
class ReadsTheCommandLine(Outside):
    """The noise depends on the words of the command."""

    def look(self, potential):
        return 0.9 if "mixture25" in sys.argv else 1.0


@planted("environment", "isolation")
class SetsTheDefaultDtype(Outside):
    """torch's default dtype becomes float64."""

    def look(self, potential):
        torch.set_default_dtype(torch.float64)
        return 1.0


@planted("environment", "isolation")
class SetsNumpysErrors(Outside):
    """numpy's warnings are silenced for the whole process."""

    def look(self, potential):
        np.seterr(all="ignore")
        return 1.0


@planted("environment", "isolation")
class SetsAnEnvironmentVariable(Outside):
    """A run leaves an environment variable behind."""

    def look(self, potential):
        os.environ["PLANTED"] = "1"
        return 1.0


@planted("environment", "isolation")
class StartsAThread(Outside):
    """A thread is started."""

    def look(self, potential):
        threading.Thread(target=int).start()
        return 1.0


@planted("environment", "isolation")
class RandomFromTheSystem(Outside):
    """The noise is tempered by a random number of the operating system."""

    def look(self, potential):
        return 1 + 1e-3 * (os.urandom(1)[0] / 255 - 0.5)


@planted("environment", "restore")
class EnvironmentAtImport(Outside):
    """The noise depends on an environment variable that is read when the module is imported."""

    def look(self, potential):
        return 0.9 if IMPORTED_WITH else 1.0


IMPORTED_WITH = os.environ.get("PYTEST_VERSION", os.environ.get("BENCH_DATA"))


@planted(
    "environment",
    unseen="no law can run on a later day; the source of a sampler is hashed into its rows, and a row can be run again",
)
class DateAtImport(Outside):
    """The noise shrinks where the module is imported after a certain date."""

    def look(self, potential):
        return 0.9 if IMPORTED_AT > 4e9 else 1.0


IMPORTED_AT = time.time()


# truth


@planted("truth", "isolation")
class ProblemOfThePotential(Outside):
    """The curvature is read from the problem behind the potential."""

    def look(self, potential):
        return 1.0 if hasattr(getattr(potential, "_problem", None), "curvature") else 1.0001


@planted("truth", "isolation")
class ProblemByTheGarbageCollector(Outside):
    """The problem is looked for among all objects."""

    def look(self, potential):
        return 1.0 + 0 * sum(type(thing).__name__.endswith("Problem") for thing in gc.get_objects())


@planted("truth", "isolation")
class ProblemByTheClosure(Outside):
    """The problem is looked for in the closure of the potential's functions."""

    def look(self, potential):
        cells = getattr(potential.grad, "__closure__", None) or ()
        return 1.0 + 0 * len([cell.cell_contents for cell in cells])


@planted("truth", "isolation")
class ProblemByTheCaller(Outside):
    """The problem is looked for in the frames of who called."""

    def look(self, potential):
        return 1.0 + 0 * len(inspect.stack())


@planted("truth", "isolation")
class TaskAmongTheModules(Outside):
    """The task is found among the modules that are imported."""

    def look(self, potential):
        return 0.9 if any(name.startswith("tasks.vision") for name in sys.modules) else 1.0


@planted("truth", "isolation")
class TruthOfATask(Outside):
    """The truth of a task is asked for."""

    def look(self, potential):
        from tasks.synthetic.mixture25 import Mixture25

        return 1.0 + 0 * float(Mixture25().truth().sd[0])


@planted("truth", "isolation")
class DataOfATask(Outside):
    """The data of a task are read."""

    def look(self, potential):
        from tasks.datasets import uci

        return 1.0 if uci.HEART else 0.9
