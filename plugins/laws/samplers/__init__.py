"""The laws for samplers, one per file; `plugins.laws.suite` collects them."""
