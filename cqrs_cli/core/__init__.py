"""Deciding, as pure functions: no Kafka, no Spark, no LMDB."""
