"""Pages of results: a start page, and a page for each task, method, row, report and suite, linked to each other.

`bench site` writes them for a results folder, `bench nightly` for a suite. The pages open from disk and load nothing
from elsewhere. Without their script the tables are as readable, but cannot be sorted, filtered or searched.
"""
