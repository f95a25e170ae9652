"""Type aliases for LMDB's objects. They are strings, because the classes take no type parameters at run time."""

from typing import TypeAlias

import lmdb

Transaction: TypeAlias = "lmdb.Transaction[bytes]"
Database: TypeAlias = "lmdb._Database"
