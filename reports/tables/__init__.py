"""Reports that are tables, one per file."""
