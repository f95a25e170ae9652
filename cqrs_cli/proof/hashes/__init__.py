"""Hashes of the logs, and what has changed since an earlier day."""
