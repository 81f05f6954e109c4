"""The ledger: every attempt at every run, as a directory on disk. It is the truth; the store is an index over it."""
