"""The encoding of records: large data are moved to the payload store, and personal fields are encrypted."""
