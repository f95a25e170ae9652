"""Rules for the topics of one partition, as pure functions over records, for `cqrs verify` and `cqrs whatif`."""
