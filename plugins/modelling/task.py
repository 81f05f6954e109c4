"""Any torch module on arrays of a file: the base class of the tasks that `Bench.compare_on` writes."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness import param
from harness.tasks import Likelihood, Metric, Network, NetworkTask, Protocol, unseen_metrics

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class TorchModel(NetworkTask):
    """The posterior of a torch module's weights, with a normal prior, on the arrays of a safetensors file.

    The file has "train/x", "train/label", "test/x" and "test/label", and "NAME/x" for each set NAME of `unseen`.

    make  returns the module with weights as they are at the start; it is called for each chain
    """

    make: ClassVar[Callable[[], Any]]
    data: str = param("", meaning="the file with the arrays", kind="file")

    def network(self) -> Network:
        return Network(type(self).make)

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        return {name.partition("/")[2]: rows for name, rows in _read(self.data).items() if name.startswith(f"{part}/")}

    def inputs(self, x: Tensor) -> Tensor:
        """Return floating-point inputs in theta's dtype, and whole numbers, such as tokens, as they are."""
        return super().inputs(x) if x.is_floating_point() else x


@functools.lru_cache(maxsize=2)
def _read(file: str) -> Mapping[str, NDArray[Any]]:
    from safetensors.numpy import load_file

    return load_file(file)


def listed(likelihood: Likelihood, unseen: Mapping[str, str], directions: Mapping[str, str]) -> list[Metric]:
    """Return the metrics of a task, nll first, then those of its likelihood, of unseen sets, and of the user."""
    of_user = [Metric(name, direction, "1", "a metric of the user") for name, direction in directions.items()]
    metrics = [*likelihood.metrics, *unseen_metrics(likelihood, unseen), *of_user]
    return sorted(metrics, key=lambda metric: metric.name != "nll")


def protocol(steps_per_epoch: int) -> Protocol:
    """Return the protocol of a model: four chains, a burn-in of half of the run, then a draw for each data pass."""
    budgets = {name: passes * steps_per_epoch for name, passes in {"smoke": 2, "quick": 20, "paper": 200}.items()}
    return Protocol("default", "2, 20 and 200 data passes", budgets, chains=4, burn_in=0.5, thin=steps_per_epoch)


def rebuilt(structure: bytes, names: Mapping[str, Any]) -> torch.nn.Module:
    """Return a module from its structure, with new weights where its layers draw them themselves.

    `names` has the classes and functions that the structure names.
    """

    class Reader(pickle.Unpickler):
        def persistent_load(self, name: str) -> Any:
            return names[name]

    module: torch.nn.Module = Reader(io.BytesIO(structure)).load()
    for layer in module.modules():
        if draw := initialisation(layer):
            draw()
    return module


def initialisation(layer: torch.nn.Module) -> Callable[[], None] | None:
    """Return the method by which a layer draws its own weights; None if it has none."""
    return getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)


def tensor(shape: tuple[int, ...], dtype: torch.dtype, values: NDArray[Any] | None, parameter: bool) -> Tensor:
    """Return a tensor, or a parameter, with these values, or without any."""
    import torch

    weights = torch.empty(shape, dtype=dtype) if values is None else torch.from_numpy(values.copy()).to(dtype)
    return torch.nn.Parameter(weights) if parameter else weights
