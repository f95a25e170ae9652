"""Deciding the past again: history joined, and its difference from what other code makes of it."""
