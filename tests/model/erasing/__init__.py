"""A model of erasing: one aggregate, its keys, an owner, copies of its shard, a projection, a backup, crashes."""
