"""The performance of `cqrs demo`: a bank's commands, decided on Spark with a real Kafka broker, in its own project."""
