"""Records of nightly runs, and their comparison with the last accepted night.

A night is the result of one `bench nightly`: rows (method, task, protocol, budget, chains, device, settings of the
suite) with the values of their metrics by seed. Finished runs are cached by their key, so tonight differs from an
earlier night only if code, settings or data changed. Rows are matched by their names, which contain no hashes of code,
and compared by seed.
"""
