"""Payloads too large for a record: they rest in a store, named by their SHA-256 (docs/payloads.md)."""
