"""Reports that are figures, one per file."""
