"""The one JSON encoder for everything written: sets and dicts in one order, so that equal values are equal bytes."""

from collections.abc import Callable
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")

encode_json: Callable[[Any], bytes] = _ENCODER.encode
