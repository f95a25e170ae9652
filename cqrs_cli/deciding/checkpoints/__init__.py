"""Checkpoints: tasks write copies of their shards, and a new shard starts from a copy instead of the whole log."""
