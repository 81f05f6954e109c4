"""Reports that are tables, one a file."""
