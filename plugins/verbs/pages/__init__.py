"""The pages of docs/samplers, made of the same records that `bench show` prints."""
