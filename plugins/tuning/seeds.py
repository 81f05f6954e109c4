"""The seeds of a search, which no report shows."""

from __future__ import annotations

from dataclasses import dataclass

from harness.tasks import TUNING_SEED

MOST_PER_TRIAL = 100
"""The largest number of seeds of a trial; those of the finalists come after them."""
PER_FINALIST = 10
"""The number of seeds of a finalist."""
BETWEEN = 1000
"""How far the seeds of one search are from those of the next."""


@dataclass(frozen=True)
class SearchSeeds:
    """The seeds of the search of this number: those of each trial and, apart from them, those of each finalist."""

    search: int = 0
    per_trial: int = 2

    @property
    def trials(self) -> list[int]:
        """The seeds of each trial."""
        return self._some(0, self.per_trial)

    @property
    def finalists(self) -> list[int]:
        """The seeds of each finalist."""
        return self._some(MOST_PER_TRIAL, PER_FINALIST)

    def _some(self, first: int, number: int) -> list[int]:
        start = TUNING_SEED + BETWEEN * self.search + first
        return [*range(start, start + number)]
