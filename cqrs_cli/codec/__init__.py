"""The encoding of records: large payloads are in a store, and personal fields are encrypted."""
