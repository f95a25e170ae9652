"""The benchmarks for the figures in docs/figures.md, one command each: `python -m benchmarks.backlog --help`.

`--peer DIR` alternates runs of Kafka Streams with runs of cqrs, with and without dedup of ids (`benchmarks.peer`).
`python -m benchmarks.picture FILE…` draws their output as an SVG.
"""
