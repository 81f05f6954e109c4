"""The laws for samplers, one a file; `plugins.laws.suite` puts them together."""
