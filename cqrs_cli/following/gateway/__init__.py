"""The gateway: aggregates over HTTP, for people and programs without Kafka.

An `AggregateFollower` keeps the states of an aggregate's partitions in shards of the gateway's own (`Replica`), and the
newest events in memory (`Feed`). Requests read those; commands go to the topic, as every client's, and wait for the
outcome.

| module | |
|---|---|
| `follower`, `replica`, `feed` | what is followed |
| `reads`, `commands`, `streams` | what is asked: states and histories, commands, events as they come |
| `answers`, `openapi`, `guard`, `metrics` | how it is said, described, guarded and measured |
| `app`, `server` | where it comes together |
"""
