"""What is claimed of samplers whose law is not that of `limit_bias`, beside their modules: no part of a run's key."""
