"""A package with a misbehaving aggregate, for tests only."""
