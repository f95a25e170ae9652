"""Personal fields of messages: their marks, how they are sealed, and what is left when their key is gone."""
