"""The laws that every sampler and task keeps: what `bench check` runs, and plugin authors in their own tests.

A plugin's own test asks `harness.conformance.suite.check_sampler(MySampler())` and asserts that no result has the
outcome "failed".
"""
