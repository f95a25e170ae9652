"""Making shards from the log beside those that are in use, and putting them in their places."""
