"""Projections: read models in a database, updated exactly once for each event."""
