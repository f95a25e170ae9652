"""Verification rules for the topics of one partition, as pure functions over records. For `verify` and `whatif`."""
