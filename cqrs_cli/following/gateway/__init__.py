"""The HTTP gateway: aggregates for people and programs without a Kafka client.

An `AggregateFollower` folds the events of an aggregate into shards of the gateway (`Replica`), and keeps the newest
events in memory (`EventBuffer`). Requests read the shards and the buffer. Commands go to the commands topic, as with
every client, and the request waits for the outcome.

| module | |
|---|---|
| `follower`, `replica`, `event_buffer` | follow the topics |
| `reads`, `commands`, `streams`, `topic_reads` | handle requests: states and histories, commands, event streams |
| `responses`, `openapi`, `guard`, `token`, `metrics` | HTTP responses, API description, access checks, metrics |
| `app`, `server`, `connections` | the ASGI application and the HTTP server |
"""
