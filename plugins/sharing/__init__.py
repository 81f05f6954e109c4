"""Results from and for other people: exported, merged, verified, scored; docs/sharing.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_facts() -> list[Info]:
    """Return the function that opens exported folders, and the one that gives draws to ArviZ."""
    return [Info("store", "plugins.sharing.published:of_folder"), Info("arviz", "plugins.sharing.arviz:to_arviz")]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("score", "plugins.sharing.score:score", "Score draws or predictions that other software made."),
        Info("merge", "plugins.sharing.merge:merge", "Copy the attempts of other results folders into this one."),
        Info("verify", "plugins.sharing.verify:verify", "Check somebody's results: keys, rows, draws, replays."),
        Info("export", "plugins.sharing.export:export", "Write the finished runs as Parquet files, to share them."),
    ]
