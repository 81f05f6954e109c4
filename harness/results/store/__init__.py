"""The DuckDB database: an index over the ledger, for queries and reports.

The ledger is the truth; the database can be deleted.
"""

from __future__ import annotations

from pathlib import Path

from harness.results.store.store import Store

__all__ = ["Store", "store_of"]


def store_of(folder: Path) -> Store:
    """Return the store of a results folder, or of an exported one, which is read-only. It still has to be refreshed."""
    from harness.results.store.published import MANIFEST, Published

    exported = (folder / MANIFEST).is_file() and not (folder / "runs").exists()
    return Published(folder) if exported else Store(folder)
