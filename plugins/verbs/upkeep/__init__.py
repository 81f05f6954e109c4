"""What `bench gc`, `replay` and `rescore` do: files that can go, runs done again, metrics measured anew."""
