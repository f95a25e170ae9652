"""Every figure in docs/figures.md, one command each: `python -m benchmarks.backlog --help`.

`--peer DIR` runs Kafka Streams in turn with ours, with and without recognising repeated ids (`benchmarks.peer`).
`python -m benchmarks.picture FILE…` draws what they print as an SVG.
"""
