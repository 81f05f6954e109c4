"""What `bench new` writes: packages that work as they are, to be edited into something else."""
