"""Reports that are figures, one a file."""
