"""The parts of `bench tune`: the space that is searched, the rule of the search, and the record of the result."""
