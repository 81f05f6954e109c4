"""What touches the machine: errors, files that are whole or missing, kernel locks, text."""
