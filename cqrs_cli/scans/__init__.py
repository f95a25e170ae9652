"""One pass over the logs of a partition, without Spark: replay, verify, whatif, check. `jobs` runs them as tasks."""
