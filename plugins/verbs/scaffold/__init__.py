"""The packages that `bench new` writes: they work without changes, and are meant to be edited."""
