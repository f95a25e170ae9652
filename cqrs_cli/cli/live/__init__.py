"""The live display of `cqrs top` and `cqrs status --watch`. `model` is pure, `loop` polls, `screen` draws."""
