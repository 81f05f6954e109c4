"""The list of measurements: groups whose cases are measured in turn, A B A B."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from setting import Case

SCORE, GRAD, ONE = "vmap + scan, score", "vmap + scan, grad", "one position, score"
MODES = ("plain", "compiled")
SGLD_CHAINS = (1, 40, 1_000, 10_000)
OTHER_CHAINS = (40, 1_000)
LOGISTIC_CHAINS = (1, 40, 1_000)
POSTERIORS_MOST = 40
"""On blr-german it needs minutes to come from the prior to the posterior with more chains."""

LOGISTIC_METHODS = ("sgld", "sghmc")
"""No peer has psgld."""
PROFILE_CHAINS = SGLD_CHAINS
OVERHEAD_CHAINS = (1, 40, 1_000)
OBSERVED_CHAINS = OTHER_CHAINS
FLOAT32_CHAINS = 40
MANY = 10_000
"""At this many chains a block of ours is ten million chain-steps: only the rows of the main table."""


def groups(*, quick: bool) -> list[list[Case]]:
    """All groups; with `quick` one number of chains and the main rows only."""
    sgld, others, logistic = ((40,), (40,), (40,)) if quick else (SGLD_CHAINS, OTHER_CHAINS, LOGISTIC_CHAINS)
    groups = [_sgld(chains) for chains in sgld]
    groups += [_sghmc(chains) for chains in others]
    groups += [_ours("msgld", chains) for chains in others]
    groups += [[*_ours("hmc", chains), Case("blackjax", "hmc", chains, SCORE)] for chains in others]
    if not lacking_data():
        groups += [_logistic(method, chains) for method in LOGISTIC_METHODS for chains in logistic]
    return [[case for case in cases if not (quick and case.extra)] for cases in groups]


def profiled(*, quick: bool) -> Sequence[int]:
    """Numbers of chains whose time is taken apart."""
    return (40,) if quick else PROFILE_CHAINS


def bare(*, quick: bool) -> Sequence[int]:
    """Numbers of chains at which the loop is held against bare ones."""
    return (40,) if quick else OVERHEAD_CHAINS


def lacking_data() -> str:
    """Why blr-german cannot run; "" where it can."""
    folder = os.environ.get("BENCH_DATA", "")
    if folder and Path(folder, "uci", "german.data-numeric").exists():
        return ""
    return "BENCH_DATA names no folder with uci/german.data-numeric (`bench data fetch` gets it)"


def _ours(method: str, chains: int, task: str = "mixture25") -> list[Case]:
    return [Case("bench", method, chains, mode, task) for mode in MODES]


def _sgld(chains: int) -> list[Case]:
    peers = [
        Case("blackjax", "sgld", chains, SCORE),
        Case("blackjax", "sgld", chains, ONE),
        Case("posteriors", "sgld", chains),
    ]
    cases = _ours("sgld", chains) + peers
    if chains != MANY:
        cases += [Case("torch", "sgld", chains, "by hand"), Case("blackjax", "sgld", chains, GRAD)]
    if chains in OBSERVED_CHAINS:
        cases += [Case("bench", "sgld", chains, f"{mode}, observed") for mode in MODES]
    if chains == FLOAT32_CHAINS:
        cases += [Case("blackjax", "sgld", chains, SCORE, dtype="float32")]
    return cases


def _sghmc(chains: int) -> list[Case]:
    peers = [Case("blackjax", "sghmc", chains, form) for form in (SCORE, ONE)]
    return [*_ours("sghmc", chains), *peers, Case("posteriors", "sghmc", chains)]


def _logistic(method: str, chains: int) -> list[Case]:
    german = "blr-german"
    cases = [*_ours(method, chains, german), Case("blackjax", method, chains, SCORE, german)]
    if method == "sgld":
        cases.append(Case("blackjax", method, chains, GRAD, german))
        if chains <= POSTERIORS_MOST:
            cases.append(Case("posteriors", method, chains, task=german))
    return cases
