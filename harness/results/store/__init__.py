"""The DuckDB database: an index over the ledger, for queries and reports.

The ledger is the truth; the database can be deleted.
"""

from __future__ import annotations

from harness.results.store.store import Store

__all__ = ["Store"]
