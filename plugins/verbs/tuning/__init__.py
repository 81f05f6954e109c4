"""The parts of `bench tune`: what is searched, by which rule, and the record of what was found."""
