"""The verbs that live outside the core, and what they are made of."""
