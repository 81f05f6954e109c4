"""Deep linear networks near their true weights, whose learning coefficients are known."""
