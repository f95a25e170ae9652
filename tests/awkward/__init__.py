"""A package whose only aggregate misbehaves on request."""
