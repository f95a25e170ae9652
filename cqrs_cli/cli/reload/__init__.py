"""`cqrs run --reload`: the run in a process of its own, started again when the code has changed."""
