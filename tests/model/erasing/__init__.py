"""A model of erasing: an aggregate, its keys, an owner, copies of its shard, a projection, a backup, and crashes."""
