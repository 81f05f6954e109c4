"""The work behind the verbs that check, repeat, recompute, combine, export and delete results."""
