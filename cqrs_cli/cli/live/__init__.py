"""The live display of `cqrs top`. `model` is pure, `loop` looks, `screen` draws."""
