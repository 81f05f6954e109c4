"""Image classification by networks."""
