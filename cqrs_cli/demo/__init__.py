"""The play of `cqrs demo`: a bank's commands, decided on Spark against a real Kafka, in a project of its own."""
