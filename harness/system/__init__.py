"""Access to the machine: errors, atomic file writes, kernel locks, text."""
