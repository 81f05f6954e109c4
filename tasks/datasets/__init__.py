"""Data sets: where the files are, what they must hash to, how they are read."""
