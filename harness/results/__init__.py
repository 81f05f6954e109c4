"""The results: the record of a run, its attempts on disk, and the DuckDB index over them."""
