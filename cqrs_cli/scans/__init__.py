"""Scans of a partition's logs, without Spark: replay, verify, whatif, check. `jobs` runs them as Spark tasks."""
