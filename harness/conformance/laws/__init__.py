"""The laws for samplers, one a file; `harness.conformance.suite` puts them together."""
