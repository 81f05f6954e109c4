"""The pages of docs/samplers, made from the records that `bench show` prints."""
