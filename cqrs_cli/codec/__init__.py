"""What lies between the records in Kafka and the records that readers get: large payloads, and encrypted fields."""
