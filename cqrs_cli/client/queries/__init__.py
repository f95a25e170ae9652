"""Queries of committed records, without Spark: dead letters, deferred commands, traces, and simulated decisions."""
