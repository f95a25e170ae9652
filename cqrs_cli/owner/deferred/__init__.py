"""Deferred commands where an owner recovers."""
