"""`cqrs demo`: commands of a bank, decided on Spark with a Kafka broker, in a project of its own."""
