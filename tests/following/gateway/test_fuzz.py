"""For requests of any kind, no response is a server error, and every refusal is a problem document."""

import json
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.following.gateway.conftest import GatewayClient

pytestmark = pytest.mark.kafka

SEGMENTS = st.sampled_from(
    ["bank_account", "acc-1", "Open", "Deposit", "history", "..", "%2F", "%FF", "", "-"]
)
PARTS = SEGMENTS | st.text(string.ascii_letters + string.digits + "-._~%", max_size=8)
VALUES = st.sampled_from(
    ["", "0", "1", "-1", "9" * 30, "5ms", "2h", "x", "beginning", "0:0", '"1"', "*", "é"]
)
NAMES = st.sampled_from(["version", "at", "at_least", "wait", "limit", "prefix", "after", "type", "from"])
HEADERS = st.sampled_from(
    ["If-Match", "If-None-Match", "Idempotency-Key", "Correlation-Id", "Prefer", "traceparent", "tracestate"]
)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
BODIES = st.none() | st.binary(max_size=20) | JSON.map(lambda body: json.dumps(body).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.lists(PARTS, min_size=1, max_size=4),
    st.dictionaries(NAMES, VALUES.filter(str.isascii), max_size=2),
    st.dictionaries(HEADERS, VALUES.filter(str.isascii), max_size=2),
    BODIES,
)
def test_every_request_gets_a_response(
    gateway: GatewayClient,
    method: str,
    parts: list[str],
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes | None,
) -> None:
    path = "/" + "/".join(parts) + ("?" + "&".join(f"{name}={value}" for name, value in query.items()))
    path = path.replace('"', "%22")
    response = gateway.request(method, path, body, **headers)
    assert response.status < 500 or response.status == 504
    if response.status >= 400 and response.status != 405:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.body["status"] == response.status
