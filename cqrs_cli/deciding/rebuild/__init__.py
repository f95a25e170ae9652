"""Builds shards from the log next to the shards in use, and installs them."""
