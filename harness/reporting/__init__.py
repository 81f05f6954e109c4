"""RULES.md as code (scoring), and reports as text, HTML and figures (rendering)."""
