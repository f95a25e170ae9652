"""The HTTP interface of the console: the paths below `/api` of a gateway.

The other paths of a gateway read one aggregate or send it a command. The paths below `/api` are for operators: they
show the status of all partitions, search and trace messages of all aggregates, list dead letters, deferred commands,
process managers and projections, and perform actions. docs/gateway.md and `GET /openapi.json` describe the paths.

| module | |
|---|---|
| `api` | maps paths to handlers |
| `actions` | retries and drops dead letters, releases and cancels deferred commands, skips events; all with a preview |
| `skips` | skips the event that stopped a process manager |
| `project` | the project that a console shows |
| `sampler` | polls the status of all partitions, and stores it for fifteen minutes |
| `overview` | returns the newest status, and the problems in it, as JSON |
| `overview_events` | encodes the overview for its streams: in full, then only changes |
| `search`, `traces` | scan the topics |
| `letters` | lists dead letters and deferred commands |
| `subscriptions` | lists process managers and projections |
| `personal` | hides the values of personal fields |
| `parameters` | reads the parameters of requests |
| `openapi` | describes the paths |
"""
