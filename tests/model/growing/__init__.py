"""A model of repartitioning during decisions: owners, clients with old counts, a lagging broker, and crashes."""
