"""What nights found, kept from night to night, and what of it became worse.

A night is what one `bench nightly` found: rows (method, task, protocol, budget, chains, device, settings of the suite)
with the values of their metrics by seed. Finished runs are cached by their key, so tonight differs from last night
where code, settings or data changed, and nowhere else. Rows are matched by their names, which leave hashes of code
out, and compared by seed.
"""
