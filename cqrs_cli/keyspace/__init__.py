"""The key space of an aggregate: which partition holds a key's records, also after a repartitioning."""
