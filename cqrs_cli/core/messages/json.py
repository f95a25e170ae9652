"""The JSON encoder for all records and states. It sorts sets and dicts, so equal values give equal bytes.

The fields of an instance are not sorted: they are in the order in which the class declares them.
"""

from collections.abc import Callable
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")

encode_json: Callable[[Any], bytes] = _ENCODER.encode

#: Decodes an object into its raw members; raises `ValueError` for any other JSON.
read_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

#: Encodes an object from raw members, in their given order.
write_members: Callable[[dict[str, msgspec.Raw]], bytes] = msgspec.json.Encoder().encode
