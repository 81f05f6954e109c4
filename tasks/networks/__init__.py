"""Networks as functions of one flat vector of weights."""
