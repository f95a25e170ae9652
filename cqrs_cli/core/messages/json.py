"""The one JSON encoder for everything written: sets and dicts in one order, so that equal values are equal bytes.

The members of an object that was written keep their order: that of its class.
"""

from collections.abc import Callable
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")

encode_json: Callable[[Any], bytes] = _ENCODER.encode

#: The members of an object, raw; raises `ValueError` for anything else.
read_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

#: An object of members, in the order in which they are given.
write_members: Callable[[dict[str, msgspec.Raw]], bytes] = msgspec.json.Encoder().encode
