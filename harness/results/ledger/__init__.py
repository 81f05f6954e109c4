"""The ledger: every attempt at every run, as a directory on disk.

The ledger is the truth; the store is an index over it.
"""
