"""The checks of `cqrs doctor`, given what they look at."""
