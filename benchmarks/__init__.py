"""Every figure in the README, one command each: `python -m benchmarks.backlog --help`.

Those of Kafka Streams take `--peer DIR` with a program that is not in this repository: `DIR/kstreams/run.sh`, which
decides the same commands and prints `commands_per_s=` and `cpu_s=`. `backlog._peer` and `latency._kafka_streams` have
what it is called with.
"""
