"""`cqrs top`: a live view of all partitions. `model` is pure, `looking` asks the broker, `screen` draws."""
