"""The runs of ours that stand for a side of a claim or of a printed number."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.reports import Group, setting_text
from harness.tasks import StatedSettings
from plugins.papers.claims import Claim, Ours, Setup
from plugins.papers.derived import estimate_of
from plugins.papers.files import PaperFile, sweep_points
from plugins.papers.reported import SWEPT, as_published, of_sweep

CODE = ("task source", "task data")
Point = tuple[tuple[str, str], ...]
Stated = Mapping[tuple[str, str, str], StatedSettings]
"""The papers' settings by method, task and protocol."""


def stated_settings(files: Sequence[PaperFile]) -> Stated:
    """Return the settings of all papers by method, task and protocol."""
    return {(one.method, one.task, one.protocol): one for file in files for one in file.stated}


def best_of(groups: Sequence[Group], metric: str | None, execution: Collection[str]) -> Ours | None:
    """Return the group run as published with the most finished seeds; of equal ones the latest.

    Runs at settings that the file had earlier count until there are as many at the current ones.
    """
    published = [group for group in groups if as_published(group, execution)]
    return ours_of(max(published, key=_weight), metric) if published and metric is not None else None


def of_sweeps(groups: Sequence[Group], execution: Collection[str]) -> list[Group]:
    """Return a group for each point of a declared sweep, chosen as by `best_of`: runs of two engines are one point."""
    points: dict[Point, Group] = {}
    for group in groups:
        if of_sweep(group, execution):
            at = _point(group.settings, [name for name, kind in group.provenance.items() if kind == SWEPT])
            points[at] = max(points.get(at, group), group, key=_weight)
    return list(points.values())


def of_claim(claim: Claim, groups: Mapping[Setup, Sequence[Group]], stated: Stated) -> list[Ours | None]:
    """Return our runs of each side of a claim: the best pair on the same code and data of the task, if there is one."""
    members = [[g for g in groups.get(side, []) if as_published(g, claim.execution)] for side in claim.sides]
    pairs = [pair for pair in itertools.product(*members) if not other_code(pair)] if len(members) == 2 else []
    if not pairs:
        return [best_of(of_side, claim.metric, claim.execution) for of_side in members]
    chosen = max(pairs, key=lambda pair: (min(len(g.done) for g in pair), *map(_weight, pair)))
    if claim.kind != "ease":
        return [ours_of(group, claim.metric) for group in chosen]
    return [
        _with_whole_sweep(group, groups[side], claim, stated.get((side.method, side.task, side.protocol)))
        for group, side in zip(chosen, claim.sides, strict=True)
    ]


def _with_whole_sweep(published: Group, of_side: Sequence[Group], claim: Claim, stated: StatedSettings | None) -> Ours:
    """Return a side of a claim about a sweep: the mean over all its points, or no value.

    There is none unless every declared point was run, on the same code and data of the task as the published one, and
    no run of it failed. A run that diverged is a result.
    """
    declared = sweep_points(stated) if stated is not None else []
    names = {name for point in declared for name in point}
    swept = of_sweeps([group for group in of_side if not other_code((published, group))], claim.execution)
    by_point = {_point(group.settings, names): group for group in (*swept, published)}
    points = [by_point[at] for at in (_point(values, names) for values in declared) if at in by_point]
    failed = [group for group in points if group.failed]
    ours = ours_of(published, claim.metric, [group for group in points if group is not published])
    if len(points) < len(declared):
        remark = f"{len(points)} of the {len(declared)} points of its declared sweep were run"
    elif failed:
        remark = f"runs failed at {len(failed)} of the {len(declared)} points of its declared sweep"
    elif published not in points:
        remark = "the published settings are not of the declared sweep"
    else:
        return ours
    if ours.estimate is None:
        return ours
    return replace(ours, estimate=replace(ours.estimate, mean=None, by_seed={}, remark=remark))


def _point(settings: Mapping[str, Any], names: Collection[str]) -> Point:
    return tuple((name, setting_text(settings.get(name))) for name in sorted(names))


def _weight(group: Group) -> tuple[int, str]:
    return len(group.done), max(run.attempt for run in group.runs)


def other_code(pair: Sequence[Group]) -> bool:
    """Return whether two groups ran on different code or data of one task."""
    a, b = pair
    return a.task == b.task and any(a.settings.get(name) != b.settings.get(name) for name in CODE)


def ours_of(group: Group, metric: str | None, sweep: Sequence[Group] = ()) -> Ours:
    """Return a group with its estimate of a metric, over the points of a sweep too if they are given."""
    return Ours(group, estimate_of(group, metric, sweep) if metric else None, sweep)
