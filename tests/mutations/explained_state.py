"""The changes in `state` that no test has to notice, one by one."""

from tests.mutations.change import SAME, Explained

_UNSEEN = "the value is stored under its key, and only the key is read"
_SPEED = "how fast it is"
_SYNC = "a process that ends loses nothing: only a machine that fails at that moment shows it"
_MESSAGE = "a message that callers do not show: they go by the class of the error"

OF_STATE: tuple[Explained, ...] = (
    Explained(
        "state.checkpoint.folder",
        SAME,
        (
            "file.name.removeprefix(DATA_SUFFIX) < oldest",  # the ends of names of one length decide nothing
            'return name.partition("-")[0]',  # each upload has a millisecond of its own
        ),
    ),
    Explained("state.checkpoint.folder", "the file at once: it costs memory only", ("file.read(None)",)),
    Explained(
        "state.checkpoint.workplace",
        SAME,
        ("os.O_RDONLY & os.O_DIRECTORY",),  # only folders have such names
    ),
    Explained(
        "state.checkpoint.workplace",
        "only a second process that removes the folder at the same moment shows it",
        ("rmtree(place, ignore_errors=None)", "rmtree(place, )", "rmtree(place, ignore_errors=False)"),
    ),
    Explained(
        "state.decoded_states",
        "a byte more or less of an estimate",
        ("_total < 0.9", "self._total = 1"),
    ),
    Explained(
        "state.decoded_states",
        "what forgets looks closer: it costs time only",
        ("if self._total >= self._budget or", "or len(self._states) >= self._capacity:"),
    ),
    Explained(
        "state.deferred_table", _UNSEEN, ("+ key, None, db=", "+ key, db=self._db)", '+ key, b"XXXX", db=')
    ),
    Explained(
        "state.deferred_table",
        SAME,
        (
            "== (subject, command_id)) or True",  # two ids would need one digest of 32 bytes
            "while there or cursor",  # the index is the last in the database
        ),
    ),
    Explained("state.encoding", "what is not there is not found: it costs time only", ('default="XXXX")',)),
    Explained(
        "state.encoding",
        "each key is looked at again: it costs time only",
        ("default=0) >= MAX_KEY", "default=1) > MAX_KEY"),
    ),
    Explained("state.environment", "LMDB makes no file executable", ("mode=385",)),
    Explained("state.environment", "a shard has five databases", ("max_dbs=6",)),
    Explained(
        "state.environment",
        "a readonly environment is never made",
        ("create=None",),
        gone=("create=not readonly,",),
    ),
    Explained(
        "state.environment",
        _SPEED,
        (
            "map_size=None",
            "sync=None",
            "sync=True",
            "readahead=None",
            "max_spare_txns=3",
            "max_spare_txns=None",
        ),
        gone=(
            "map_size=map_size,",
            "metasync=False,",
            "readahead=readonly,",
            "max_spare_txns=2,",
            "sync=False,",
        ),
    ),
    Explained(
        "state.errors",
        SAME,
        (
            "path.resolve(), -2",  # below the depth of every mount point, which has a part at least
            "path.resolve(), +1",
            'return "XXXX"',  # no network's file system either
            '-1, "XXXX"',
            "line.split(None)",  # fields are separated by one space, and other white space within is escaped
        ),
    ),
    Explained(
        "state.lmdb_store",
        "a copy with its unused pages: it costs room only",
        ("compact=None)", "copy(str(folder), )", "compact=False)"),
    ),
    Explained(
        "state.lmdb_store",
        "no two entries have one key: what comes after it is never compared",
        tuple(
            f"{entries}, {key})"
            for entries in ("state_entries(change.states)", "dedup_entries(remembered)")
            for key in ("", "key=None")
        ),
    ),
    Explained(
        "state.lmdb_store",
        SAME,
        (
            "(now + age) % 2",
            "before, now = change.start.clock / self._window_ms",  # whole numbers are compared with it
        ),
    ),
    Explained(
        "state.lmdb_store",
        "how large the map is, which grows",
        ("set_mapsize(3 *", "open_environment(path, None, readonly)"),
    ),
    Explained(
        "state.lmdb_store",
        "a shard without its databases is refused, or made, either way",
        ("txn, create=None)", "txn, )"),
    ),
    Explained("state.lmdb_store", _MESSAGE, ("NotOwnerError(None)",)),
    Explained("state.lmdb_store", "it is only ever asked whether the store is open", ("self._open = None",)),
    Explained(
        "state.lmdb_view",
        "two segments have no time in common",
        ("remembered.timestamp >= found.timestamp",),
    ),
    Explained("state.memory", _MESSAGE, ("NotOwnerError(None)",)),
    Explained(
        "state.memory",
        "a copy that nobody needed: it costs time only",
        ("looked_at = self._looks >= 0", "if (looked_at) or True else", "self._looks = 1"),
    ),
    Explained("state.memory", SAME, ("if more >= 0",)),  # no more is used than the limit
    Explained("state.memory", "what is taken back was there", ("entries.pop(key, )",)),
    Explained(
        "state.shard",
        "where no change is applied no id is forgotten, so that a window has no use",
        ("window_ms=None, readonly", "window_ms=1, readonly", "LmdbStore(prepared, None)"),
    ),
    Explained(
        "state.shard",
        "the name under which a shard is set aside: it need only sort, and say why",
        ("datetime.now(None)", "[:41].strip", ".strip(None)", '.strip("XX-XX")'),
    ),
    Explained("state.shard", "the path is that of a folder", ("os.O_RDONLY & os.O_DIRECTORY",)),
    Explained(
        "state.encoding",
        "the ids are turned into keys one by one: it costs time only",
        (
            *('"XXXX".join(ids)', '"XX-XX" * len(ids)', '"XX-XX") != 4', "!= 4 / len(ids)"),
            *("text[place::37]", 'replace("XX-XX", "")', 'replace("-", "XXXX")'),
        ),
    ),
    Explained("state.encoding", "big is the default from Python 3.11 on", ("(text).to_bytes(4, )",)),
    Explained("state.store", "looked at more closely: it costs time only", ("if ages < {0}:",)),
    Explained("state.trace_index", _MESSAGE, ("self._path = None",)),
    Explained(
        "state.trace_index",
        _SPEED,
        (
            *("map_size=None", "sync=None", "lock=None", "readahead=None", "str(path), sync"),
            *(
                "_MAP_SIZE, metasync",
                "sync=False, lock=False, r",
                "metasync=False, readahead",
                "lock=False, )",
            ),
            *("sync=True", "lock=True", "readahead=False", "3 * self._env"),
        ),
    ),
    Explained(
        "state.trace_index",
        "how many are appended together",
        (
            *("self._bytes = 1", "self._bytes = len(trace)", "self._bytes -= len", "[], 1"),
            *("TRACES_TOGETHER and self", "> TRACES_TOGETHER", "> BYTES_TOGETHER"),
        ),
    ),
    Explained(
        "state.trace_index",
        "they are in order: it costs time only",
        ("append=None", "append=False", "(self._waiting, )"),
    ),
    Explained("state.trace_index", _SYNC, ("self._env.sync(None)", "self._env.sync(False)")),
    Explained("state.trace_index", "below every command", ("else -2",)),
)
