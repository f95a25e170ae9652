"""Checkpoints: owners write them of their shards, and begin with one in place of the whole log."""
