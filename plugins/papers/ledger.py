"""The reproduction ledger: every printed cell and every claim of the papers, beside our results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from harness import BenchError, Registry, UsageError, registry
from harness.reports import Group, Request, Store, load_groups
from harness.runs import plugin_metadata, task_facts
from plugins.papers.claims import (
    Claim,
    Comparisons,
    Finding,
    Judged,
    Ours,
    Setup,
    by_table,
    comparisons,
    judge_family,
    load_claims,
)
from plugins.papers.derived import measured
from plugins.papers.files import PaperFile, paths, read
from plugins.papers.reported import (
    OUTSIDE,
    UNREPRODUCIBLE,
    Reported,
    Verdict,
    earlier_settings,
    load_cells,
    own_settings,
    setting_name,
    verdict,
)
from plugins.papers.sides import Stated, best_of, of_claim, of_sweeps, other_code, ours_of, stated_settings

NOT_RUN: Final = "not run"
AT_OURS = "at our settings"
Swept = Literal["reversed in its sweep", "holds in its sweep"]


@dataclass(frozen=True)
class CellEntry:
    """A printed cell. `ours` is our run as published. `missing` says why there is none.

    Without a verdict: `others` are runs at other budgets, and `tried` the points of a declared sweep.
    """

    cell: Reported
    ours: Ours | None
    others: Sequence[Ours]
    tried: Sequence[Ours]
    verdict: Verdict | Literal["not run", "not a sampler of this tool"]
    reason: str
    missing: str = ""

    @property
    def text(self) -> str:
        """The verdict; of a cell that was not run also why, and the best verdict that a run could have."""
        best = "inconclusive at best" if self.cell.ours else ""
        remarks = [self.missing, _cost(self.cell.core_hours), best]
        return _with_remarks(self.verdict, remarks if self.verdict == NOT_RUN else [])

    @property
    def at_papers_settings(self) -> bool:
        """Whether our runs have a value, at settings that are all stated by the paper."""
        return (
            self.ours is not None
            and _measured(self.ours)
            and not own_settings(self.ours.group, self.cell.ours, self.cell.execution)
        )


@dataclass(frozen=True)
class ClaimEntry:
    """A claim, our runs of its sides, and the finding.

    finding   holds, fails: by our runs, or by an exact analysis; undecided; vacuous: true only because everything
              failed; not informative: the baseline has almost no effective sample size; not run
    at_ours   whether some of the settings or other choices are ours, so that what holds or fails is a finding of ours
    in_sweep  what points of a declared sweep say to the opposite
    missing   why it was not run
    tried     the points of declared sweeps behind `swept`
    """

    claim: Claim
    ours: Sequence[Ours | None]
    judged: Judged | None
    finding: Finding | Literal["not run"]
    reason: str
    at_ours: bool = False
    in_sweep: Swept | None = None
    missing: str = ""
    tried: Sequence[Ours] = ()
    swept: Comparisons | None = None

    @property
    def kind(self) -> str:
        """The finding by which claims are counted: "holds at our settings" is not "holds"."""
        return f"{self.finding} {AT_OURS}" if self.at_ours and self.finding in {"holds", "fails"} else self.finding

    @property
    def text(self) -> str:
        """The finding with all that qualifies it."""
        if self.finding == NOT_RUN:
            best = f"{AT_OURS} at best" if self.at_ours else ""
            return _with_remarks(self.finding, [self.missing, _cost(self.claim.core_hours), best])
        return _with_remarks(self.kind, [self.in_sweep or ""])


@dataclass(frozen=True)
class Reproduction:
    """The ledger, in the order of the papers' files, and notes on files that are left out.

    `cells` are those of samplers; `outside` are those of models that are not samplers of this tool.
    """

    cells: Sequence[CellEntry]
    outside: Sequence[CellEntry]
    claims: Sequence[ClaimEntry]
    notes: Sequence[str] = ()

    @property
    def run_keys(self) -> set[str]:
        """The keys of all runs that the ledger uses."""
        used = [ours for entry in self.cells for ours in (entry.ours, *entry.tried, *entry.others)]
        used += [side for entry in self.claims for side in (*entry.ours, *entry.tried)]
        groups = [group for ours in used if ours is not None for group in (ours.group, *ours.sweep)]
        return {run.key for group in groups for run in group.runs}


def label(word: str) -> str:
    """Return the label of a table from a user's word: "Table 4" for "4", "Figure 3" for "figure 3"."""
    text = " ".join(word.split())
    return f"Table {text}" if text.isdigit() else text[:1].upper() + text[1:]


def chosen(
    known: Registry, files: Sequence[PaperFile], paper: str | None = None, tables: Sequence[str] = ()
) -> tuple[list[Reported], list[Claim]]:
    """Return the cells and claims of a paper, of some of its tables; raise `UsageError` if one does not exist."""
    cells, claims = load_cells(files), load_claims(files)
    entries: list[Reported | Claim] = [*cells, *claims]
    papers = {entry.paper for entry in entries}
    if paper is not None and paper not in papers:
        raise known.unknown("unknown paper", paper, papers)
    labels = list(dict.fromkeys(entry.table for entry in entries if paper in {None, entry.paper}))
    wanted = [label(word) for word in tables] or labels
    for word in wanted:
        if word not in labels:
            raise UsageError(f"unknown table {word!r}; there are {', '.join(labels)}")
    return (
        [cell for cell in cells if paper in {None, cell.paper} and cell.table in wanted],
        [claim for claim in claims if paper in {None, claim.paper} and claim.table in wanted],
    )


def reproduction(store: Store, request: Request, paper: str | None = None, tables: Sequence[str] = ()) -> Reproduction:
    """Return the ledger of a paper and its tables, for the request's tasks, methods and protocols of cells."""
    known = request.registry or registry()
    files, notes = read(paths(known))
    cells, claims = chosen(known, files, paper, tables)
    groups: dict[Setup, list[Group]] = {}
    earlier, stated = earlier_settings(files), stated_settings(files)
    for group in load_groups(store, Request(registry=known)):
        groups.setdefault(Setup(group.method, group.task, group.protocol, group.chains), []).append(group)
    families = []
    for members in by_table(claims).values():
        families += _claims(members, groups, stated, request.registry)
    entries = [_cell(cell, groups, request.registry) for cell in cells if _named(request, [_of(cell)])]
    return Reproduction(
        [_mark_outdated_cell(entry, earlier) for entry in entries if entry.verdict != OUTSIDE],
        [entry for entry in entries if entry.verdict == OUTSIDE],
        [_mark_outdated_claim(e, earlier) for e in families if _named(request, [e.claim.better, e.claim.worse])],
        [f"note: {note}" for note in notes],
    )


def sides(cells: Iterable[Reported], claims: Iterable[Claim]) -> dict[Setup, str]:
    """Return what must be run for cells and claims, each with what it needs beyond a CPU."""
    needed: dict[Setup, str] = {}
    for cell in cells:
        if (side := _of(cell)) is not None and cell.metric:
            needed.setdefault(side, cell.needs or "")
    for claim in claims:
        for side in claim.sides:
            needed.setdefault(side, claim.needs or "")
    return needed


def _mark_outdated_cell(entry: CellEntry, earlier: Callable[[Group], list[str]]) -> CellEntry:
    """Return the entry, made inconclusive if our runs are older than the settings in the papers' files."""
    changed = earlier(entry.ours.group) if entry.ours is not None and not entry.cell.obstacle else []
    return replace(entry, verdict="inconclusive", reason=_earlier(changed)) if changed else entry


def _mark_outdated_claim(entry: ClaimEntry, earlier: Callable[[Group], list[str]]) -> ClaimEntry:
    changed = [f"{ours.group.method} {text}" for ours in entry.ours if ours is not None for text in earlier(ours.group)]
    if not changed or entry.judged is None:
        return entry
    return replace(entry, finding="undecided", reason=f"{_earlier(changed)}; {entry.reason}")


def _earlier(changed: Sequence[str]) -> str:
    return f"our runs are at settings that the paper's file had earlier: {'; '.join(changed)}"


def _cell(cell: Reported, groups: dict[Setup, list[Group]], registry: Registry | None) -> CellEntry:
    if cell.outside:
        return CellEntry(cell, None, (), (), OUTSIDE, cell.outside)
    side = _of(cell)
    members = groups.get(side, []) if side is not None and cell.metric else []
    elsewhere = [ours_of(group, cell.metric) for group in members if group.budget != "paper"]
    others = [ours for ours in elsewhere if _measured(ours)]
    tried = [ours_of(group, cell.metric) for group in of_sweeps(members, cell.execution)]
    ours = best_of(members, cell.metric, cell.execution)
    match = verdict(ours.group, ours.estimate, cell) if ours is not None and ours.estimate is not None else None
    if match is not None:
        return CellEntry(cell, ours, others, tried, match.verdict, "" if cell.obstacle else match.reason)
    if cell.obstacle:
        return CellEntry(cell, ours, others, tried, UNREPRODUCIBLE, "")
    why = _why_not(ours, registry, side, cell.metric, cell.needs)
    if ours is not None and ours.group.runs:
        return CellEntry(cell, ours, others, tried, "inconclusive", why)
    reason = f"the paper does not give {', '.join(cell.ours)}" if cell.ours else ""
    return CellEntry(cell, ours, others, tried, NOT_RUN, reason, why)


def _cost(core_hours: float | None) -> str:
    return f"about {core_hours:g} core hours" if core_hours else ""


def _with_remarks(text: str, remarks: Iterable[str]) -> str:
    inside = "; ".join(filter(None, remarks))
    return f"{text} ({inside})" if inside else text


def _claims(
    claims: Sequence[Claim], groups: dict[Setup, list[Group]], stated: Stated, registry: Registry | None
) -> list[ClaimEntry]:
    ours = [of_claim(claim, groups, stated) for claim in claims]
    judged = judge_family(claims, ours)
    entries = [_claim(*each, registry) for each in zip(claims, ours, judged, strict=True)]
    return [_with_sweep(entry, groups) for entry in entries]


def _with_sweep(entry: ClaimEntry, groups: dict[Setup, list[Group]]) -> ClaimEntry:
    claim = entry.claim
    if entry.judged is None or len(claim.sides) != len(entry.ours) or None in entry.ours:
        return entry
    swept = [of_sweeps(groups.get(side, []), claim.execution) for side in claim.sides]
    points = [[ours_of(group, claim.metric) for group in members] for members in swept]
    both = [[ours, *tried] for ours, tried in zip(entry.ours, points, strict=True) if ours is not None]
    compared = comparisons(claim, *both) if len(both) == 2 else None
    # A single point can qualify a claim that fails, but not one that holds.
    if compared is None or (compared.total < 2 and entry.finding != "fails"):
        return entry
    in_sweep: Swept | None = None
    text, held = compared.text, compared.total - compared.reversed
    if compared.reversed and entry.finding == "holds":
        in_sweep = "reversed in its sweep"
    elif held and entry.finding == "fails" and claim.kind == "ordering":
        in_sweep = "holds in its sweep"
        text = f"in its declared sweep it holds in {held} of {compared.total} comparisons"
    tried = [ours for side in points for ours in side]
    return replace(entry, reason=f"{entry.reason}; {text}", in_sweep=in_sweep, tried=tried, swept=compared)


def _claim(claim: Claim, ours: Sequence[Ours | None], judged: Judged | None, registry: Registry | None) -> ClaimEntry:
    if claim.obstacle:
        return ClaimEntry(claim, ours, None, NOT_RUN, "", missing=claim.obstacle)
    if claim.exact is not None:
        reason = f"exact, no run: {claim.exact.evidence} (report {claim.exact.report})"
        return ClaimEntry(claim, ours, None, claim.exact.finding, reason)
    if claim.kind == "analysis":
        return ClaimEntry(claim, ours, None, NOT_RUN, "", missing="the file lacks analysis, finding or evidence")
    unstated = _own_names(claim, ours)
    text = f"the paper does not give {', '.join(unstated)}" if unstated else ""
    if judged is not None:
        apart = len(ours) == 2 and other_code([side.group for side in ours if side is not None])
        finding: Finding = "undecided" if apart else judged.finding
        why = "the two sides ran on different code or data of the task" if apart else ""
        reason = "; ".join(filter(None, (why, judged.reason, text)))
        return ClaimEntry(claim, ours, judged, finding, reason, bool(unstated))
    not_run = [setup for setup, side in zip(claim.sides, ours, strict=True) if side is None]
    reasons = dict.fromkeys(_why_not(None, registry, setup, claim.metric, claim.needs) for setup in not_run)
    if not claim.sides and claim.needs:
        reasons = {f"needs {claim.needs}": None}
    empty = [side for side in ours if side is not None and not _measured(side)]
    why = "; ".join(filter(None, [*reasons, *(f"{side.group.method}: {_unmeasured(side)}" for side in empty)]))
    if empty and not not_run:
        return ClaimEntry(claim, ours, None, "undecided", why)
    return ClaimEntry(claim, ours, None, NOT_RUN, text, bool(unstated), missing=why)


def _own_names(claim: Claim, ours: Sequence[Ours | None]) -> list[str]:
    """Return the names of settings that the paper does not give for either side.

    The papers' files and `bench plan` have their values.
    """
    groups = [side.group for side in ours if side is not None]
    recorded = [text for group in groups for text in own_settings(group, claim.ours, claim.execution)]
    return sorted({setting_name(text) for text in [*recorded, *claim.ours]})


def not_offered(registry: Registry, method: str, task: str, protocol: str, metric: str | None = None) -> str:
    """Return which of a method, a task, a protocol and a metric no installed plugin has, as a message. "" if none."""
    if task not in {offer.name for offer in registry.offers("tasks")}:
        return f"no task {task}"
    if method not in {offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)}:
        return f"no method {method}"
    try:
        offer = registry.find("tasks", task)
        stated = next((known for known in plugin_metadata.protocols(offer) if known.name == protocol), None)
        if stated is None:
            return f"{task} has no protocol {protocol}"
        settings = plugin_metadata.resolve(offer, stated.task_settings())
        metrics = {known.name for known in task_facts(offer, settings).metrics}
    except BenchError as error:
        return str(error)
    return f"{task} has no metric {metric}" if metric and measured(metric) not in metrics else ""


def _why_not(
    ours: Ours | None, registry: Registry | None, side: Setup | None, metric: str | None, needs: str | None
) -> str:
    if ours is not None:
        return _unmeasured(ours)
    lacks = ""
    if registry is not None and side is not None:
        lacks = not_offered(registry, side.method, side.task, side.protocol, metric)
    return lacks or (f"needs {needs}" if needs else "")


def _measured(ours: Ours) -> bool:
    return ours.estimate is not None and bool(ours.estimate.by_seed)


def _unmeasured(ours: Ours) -> str:
    group = ours.group
    if group.diverged or group.failed:
        return f"{len(group.diverged)} of our runs diverged, {len(group.failed)} failed"
    return (ours.estimate.remark if ours.estimate is not None else "") or "our runs do not have this metric"


def _of(cell: Reported) -> Setup | None:
    if cell.method is None or cell.task is None or cell.protocol is None or cell.chains is None:
        return None
    return Setup(cell.method, cell.task, cell.protocol, cell.chains)


def _named(request: Request, setups: Iterable[Setup | None]) -> bool:
    """Return whether one of some sides has the request's tasks, methods and protocols."""
    filters = {"task": request.tasks, "method": request.methods, "protocol": request.protocols}
    asked = {name: words for name, words in filters.items() if words}
    return not asked or any(
        side is not None and all(getattr(side, name) in words for name, words in asked.items()) for side in setups
    )
