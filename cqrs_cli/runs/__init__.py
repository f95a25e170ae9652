"""A run as its driver and other runs see it, without Spark: its progress, other active runs, and its metrics."""
