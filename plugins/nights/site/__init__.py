"""Pages of results: a start page, and a page for each task, method, row, report and suite, linked to each other.

`bench site` writes them for a results folder, `bench nightly` for a suite. The pages open from disk and load nothing
from other places. Without their script the tables can still be read, but not sorted, filtered or searched.
"""
