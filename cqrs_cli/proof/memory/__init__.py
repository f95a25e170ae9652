"""The data that a proof keeps on disk while it goes from command to command."""
