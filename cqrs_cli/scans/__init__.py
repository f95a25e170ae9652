"""Scans of a partition's logs: replay, verify, whatif, check. They do not use Spark; `jobs` runs them as tasks."""
