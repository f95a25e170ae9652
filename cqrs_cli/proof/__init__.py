"""The rules of one partition's topics, as pure functions over records: for `cqrs verify` and `cqrs whatif`."""
