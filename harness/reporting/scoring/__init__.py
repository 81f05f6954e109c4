"""RULES.md as code: which runs may be averaged, compared and ranked, and what is shown beside a number."""
