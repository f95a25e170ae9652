"""The checks of `cqrs doctor`, with the objects that they examine."""
