"""When and how owners write checkpoints of their shards, and begin with one in place of the whole log."""
