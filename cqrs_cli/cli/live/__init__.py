"""The live display of `cqrs top`: `model` has the pure logic, `loop` polls the broker, `screen` draws."""
