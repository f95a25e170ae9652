"""The collector to which spans are exported, from the standard environment variables."""

import os
import re


def endpoint(signal: str = "TRACES") -> str | None:
    """Return the address of the collector; None if the signal, `TRACES` or `METRICS`, is not to be exported."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none":
        return None
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


def endpoint_text() -> str:
    """Return the address of the collector without user and password, for messages."""
    return re.sub(r"//[^/@]*@", "//", endpoint() or "")


def dropped_text() -> str:
    """Return the message about lost spans."""
    return f"spans are dropped, because the collector does not take them: {endpoint_text()}"
