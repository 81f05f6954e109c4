"""The laws for samplers, one per file; `plugins.checking.suite` collects them."""
