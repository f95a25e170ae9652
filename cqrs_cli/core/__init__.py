"""Decides commands with pure functions: no Kafka, no Spark, no LMDB."""
