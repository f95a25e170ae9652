"""The invariants of one partition's topics, as pure functions over records: what `cqrs verify` proves."""
