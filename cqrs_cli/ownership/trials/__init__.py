"""Finding the one command that a worker cannot decide, without harm to any other command."""
