"""Payloads too large for a record: files in a payload store, named by their SHA-256 (docs/payloads.md)."""
