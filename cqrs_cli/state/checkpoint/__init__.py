"""Checkpoints of shards: compact copies in a folder or an object store, each with a manifest."""
