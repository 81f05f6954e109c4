"""Planning and running: what is to do, in which processes, on which devices."""
