"""`cqrs run --reload`: the run is a child process, which is restarted when the code has changed."""
