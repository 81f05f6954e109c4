"""Networks as functions of one flat vector of weights, and what is observed of classifiers."""
