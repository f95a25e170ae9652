"""The gateway's Prometheus metrics; docs/gateway.md describes each metric."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from cqrs_cli.following.gateway.follower import AggregateFollower


class GatewayMetrics(Collector):
    """Counts requests, and reads the followers' state on each scrape."""

    def __init__(self, followers: "Mapping[str, AggregateFollower]") -> None:
        self._followers = followers
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        self.requests = Counter(
            "cqrs_gateway_requests", "Requests answered.", ["method", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "cqrs_gateway_request_seconds",
            "Seconds until the first byte of the answer.",
            ["method"],
            registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the followers."""
        following_gauge = GaugeMetricFamily(
            "cqrs_gateway_following",
            "1 while the events are followed, 0 after an error.",
            labels=["aggregate"],
        )
        start_lag = GaugeMetricFamily(
            "cqrs_gateway_start_lag",
            "Offsets of events from before the gateway's start that are not folded yet.",
            labels=["aggregate"],
        )
        for name, follower in self._followers.items():
            following_gauge.add_metric([name], float(follower.error is None))
            start_lag.add_metric([name], float(follower.lag()))
        yield following_gauge
        yield start_lag

    def response(self) -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")


class RequestTimer:
    """ASGI middleware that counts and times requests."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, method = time.monotonic(), scope["method"] if scope["method"] in ("GET", "POST") else "other"

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(method, str(message["status"])).inc()
                self._metrics.seconds.labels(method).observe(time.monotonic() - started)
            await send(message)

        return await self._app(scope, receive, send_and_count)
