"""The types of LMDB's objects, spelled as text: at run time these classes take no parameters."""

from typing import TypeAlias

import lmdb

Transaction: TypeAlias = "lmdb.Transaction[bytes]"
Database: TypeAlias = "lmdb._Database"
