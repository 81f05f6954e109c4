"""A torch module and its data as a task: a plugin file in the results folder, and the arrays beside it."""

from __future__ import annotations

import hashlib
import inspect
import io
import pickle
import re
import types
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness import UsageError
from harness.contracts import user_files
from harness.runs import is_installed
from harness.system import write_whole
from plugins.modelling.arrays import Array
from plugins.modelling.task import initialisation, tensor
from plugins.scaffold.definitions import Parts, offered_name

LIKELIHOODS = ("classification", "regression", "heteroscedastic", "poisson", "token")
"""The kinds; the class of each in `tasks.likelihoods` has its name, capitalised."""


def define(
    results: Path,
    model: Any,
    arrays: Mapping[str, Array],
    *,
    likelihood: str | Callable[..., Any],
    prior_precision: float,
    batch: int,
    metrics: Mapping[str, Any],
    shifts: Mapping[str, Callable[..., Any]] | None = None,
    name: str = "",
) -> tuple[str, str]:
    """Write the arrays and the plugin file of a task to a results folder; return the file's path and the task's name.

    model    a module, or a function that makes one
    arrays   by "SET/ARRAY": those of "train" and "test", and the inputs of unseen sets
    metrics  name -> f(mean prediction, y), of which more is better, or a pair of f and the direction, "min" or "max"
    shifts   name -> f(row, severity, generator), as those of `tasks.shifts.WithShifts`

    Raises `UsageError` if the source of a class or a function cannot be had.
    """
    parts = Parts()
    parts.imports |= {"from dataclasses import dataclass", "from harness import param"}
    parts.imports.add("from plugins.modelling.task import TorchModel, listed, protocol")
    scored = {key: metric if isinstance(metric, tuple) else (metric, "max") for key, metric in metrics.items()}
    directions = {key: direction for key, (_, direction) in scored.items()}
    called = _add_model(parts, model)
    title = "".join(word[:1].upper() + word[1:] for word in re.split(r"[\W_]+", name or called))
    if not title.isidentifier():
        raise UsageError(f"the name {name!r:.80} of a model does not begin with a letter")
    terms = len(arrays["train/x"])
    unseen = {name: name for name in (key.partition("/")[0] for key in arrays) if name not in {"train", "test"}}
    members = [
        f'data: str = param("{_keep(arrays, results)}", meaning="the arrays", kind="file")',
        f'batch: int = param({batch}, "[1, inf)", "n, rows in a minibatch", source="compare_on")',
        f'prior_precision: float = param({prior_precision!r}, "[0, inf)", "of all weights", source="compare_on")',
        f"protocols = (protocol({-(-terms // batch)}),)",
        f"likelihood = {_add_likelihood(parts, likelihood)}",
        f"unseen = {unseen!r}",
        f"metrics = listed(likelihood, unseen, {directions!r})",
        "make = staticmethod(model_of_the_task)",
    ]
    base = "TorchModel"
    if shifts:
        base = "WithShifts, TorchModel"
        parts.imports.add("from tasks.shifts import WithShifts, shift_metrics")
        values = [f"{key!r}: {_add(parts, f, f'shifts[{key!r}]')}" for key, f in shifts.items()]
        members += [f"shifts = {{{', '.join(values)}}}", "metrics = [*metrics, *shift_metrics(likelihood)]"]
    if metrics:
        values = [f"{key!r}: {_add(parts, f, f'metrics[{key!r}]')}(mean, y)" for key, (f, _) in scored.items()]
        members.append(f"def scores(self, mean, y):\n        return {{{', '.join(values)}}}")
    summary = f"{title} on {terms:,} rows"
    body = "\n    ".join([f'"""{summary}."""\n', *members])
    parts.definitions.append(f"@dataclass(frozen=True, kw_only=True)\nclass {title}Task({base}):\n    {body}")
    task_name = f"{offered_name(title)}-{hashlib.sha256(parts.text.encode()).hexdigest()[:6]}"
    path, task = parts.keep("tasks", f"{title}Task", task_name, summary, results)
    return str(path), task


def _add_model(parts: Parts, model: Any) -> str:
    """Add the function `model_of_the_task` to a file; return the name of the model."""
    import torch

    model = model() if isinstance(model, partial) else model
    if isinstance(model, torch.nn.Module):
        parts.imports.add("from plugins.modelling.task import rebuilt")
        parts.constants.append(f"STRUCTURE = {structure(model, parts)!r}")
        parts.definitions.append("def model_of_the_task():\n    return rebuilt(STRUCTURE, globals())")
        return type(model).__name__
    parts.definitions.append(f"model_of_the_task = {_add(parts, model, 'model')}")
    return str(model.__name__)


def _add_likelihood(parts: Parts, likelihood: str | Callable[..., Any]) -> str:
    if isinstance(likelihood, str) and likelihood not in LIKELIHOODS:
        known = ", ".join(LIKELIHOODS)
        raise UsageError(f"likelihood {likelihood!r:.80} is not {known}, or a function (outputs, y) -> log-likelihoods")
    kind = likelihood.capitalize() if isinstance(likelihood, str) else "Custom"
    parts.imports.add(f"from tasks.likelihoods import {kind}")
    return f"{kind}()" if isinstance(likelihood, str) else f"{kind}({_add(parts, likelihood, 'likelihood')})"


def _add(parts: Parts, function: Any, what: str) -> str:
    """Add a function or class to a file, and return its name. `UsageError` if it has no source to be found by name."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier() or not (inspect.isclass(function) or inspect.isroutine(function)):
        raise UsageError(f"{what} is {function!r:.80}; define it by `def` or `class` in a script, a cell or a module")
    parts.add(name, function)
    return name


def _keep(arrays: Mapping[str, Array], results: Path) -> str:
    """Write arrays to the folder of files under their checksum; return this as settings name it."""
    from safetensors.numpy import save

    content = save(dict(sorted(arrays.items())))
    digest = hashlib.sha256(content).hexdigest()
    file = results / user_files.FOLDER / digest
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)
    return f"sha256:{digest}"


def structure(module: Any, parts: Parts) -> bytes:
    """Return a module for `task.rebuilt`, and add its classes and functions to the parts of a file.

    Weights that the layers draw themselves are left out; buffers and other weights, such as a parameter of the module's
    own, are kept. Raises `UsageError` for a frozen parameter, and for what cannot be kept, such as a lambda.
    """
    import torch

    if frozen := [name for name, weights in module.named_parameters() if not weights.requires_grad]:
        raise UsageError(f"{', '.join(frozen[:5])} of the model would be sampled although frozen; make them buffers")
    drawn = {id(w) for layer in module.modules() if initialisation(layer) for w in layer.parameters(recurse=False)}

    class Writer(pickle.Pickler):
        def persistent_id(self, value: Any) -> str | None:
            if not isinstance(value, type | types.FunctionType) or is_installed(value.__module__ or ""):
                return None
            return _add(parts, value, "a part of the model")

        def reducer_override(self, value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return NotImplemented
            values = None if id(value) in drawn else value.detach().cpu().numpy()
            return tensor, (tuple(value.shape), value.dtype, values, isinstance(value, torch.nn.Parameter))

    content = io.BytesIO()
    try:
        Writer(content, protocol=4).dump(module)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(f"the model cannot be given to workers: {error}; give a function that makes it") from error
    return content.getvalue()
