"""Spans for OpenTelemetry (extra `otel`): a listener of `cqrs_cli.observer`, and the exporter."""
