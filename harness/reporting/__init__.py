"""RULES.md as code (scoring), and a report as text, pages and figures (rendering)."""
