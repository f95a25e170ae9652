"""Read models in a database, exactly once."""
