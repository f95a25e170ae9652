"""The changes that no test has to notice: in a class, by what was changed, or one by one."""

import re
from collections.abc import Callable
from typing import NamedTuple


class Change(NamedTuple):
    """The lines as they were and as they became, and the least part that differs."""

    line: str
    became: str
    old: str
    new: str


class Class(NamedTuple):
    """Changes that are alike in every module."""

    why: str
    holds: Callable[[Change], bool]


class Explained(NamedTuple):
    """Changes in a module after which a line has one of these texts."""

    module: str
    why: str
    texts: tuple[str, ...]


def _is_wording(change: Change) -> bool:
    """True if the change is within one literal that is a sentence, or part of one."""
    literals = zip(*(re.findall(r'"[^"]*"', line) for line in (change.line, change.became)), strict=False)
    changed = [(was, now) for was, now in literals if was != now]
    return len(changed) == 1 and all(
        re.search("[a-z]", was) and " " in was and now.replace("XX", "").lower() == was.lower()
        for was, now in changed
    )


def _is_cut(change: Change) -> bool:
    if not change.old.isdigit() or change.new != str(int(change.old) + 1):
        return False
    return bool(re.search(rf"\{{[^{{}}]*\[:{change.old}\][^{{}}]*\}}", change.line))


def _is_zip(change: Change) -> bool:
    return "strict=" in change.line and (change.old, change.new) in _ZIPS


_ZIPS = {
    (old, new) for old in ("True", "False", "strict=True", "strict=False") for new in ("None", "False", "")
}


def _is_failpoint(change: Change) -> bool:
    return change.line.startswith("failpoints.reached(")


CLASSES = (
    Class(
        "the case or the frame of words for people: tests pin the part that says what happened", _is_wording
    ),
    Class("how much of somebody's text a message quotes", _is_cut),
    Class("`strict` of a zip whose arguments have one length: an assertion that never fails", _is_zip),
    Class("the name of a failpoint: processes are killed there by the tests with a broker", _is_failpoint),
)

#: Reasons that come more than once.
_FALSE = "the default is only ever tested for being false, and the other one is, too"
_SAME = "the same for every value that gets there"
_GUARD = "a cheap test before the exact one: it costs time only"
_DIGEST = "any other separator does as well: digests are compared with those of the same code only"
_UNSEEN = "the value is stored under its key, and only the key is read"
_MESSAGE = "a message that callers do not show: they go by the class of the error"

EXPLAINED: tuple[Explained, ...] = (
    Explained("core.aggregate.aggregate", "the separator in a message", ('"XX, XX".join(cls',)),
    Explained("core.aggregate.annotations", _FALSE, ('"__parameters__", None)',)),
    Explained("core.aggregate.code_digest", _DIGEST, ('"XX\\0XX".join(',)),
    Explained(
        "core.aggregate.code_digest",
        _SAME,
        (
            'ast.parse(source or "XXXX")',  # without a source no name is found, in either tree
            "ast.Module(list(found.values()), None)",  # the type comments, which nobody reads
            "ast.Module(list(found.values()), )",
            "get_source(None)",  # a loader of one module takes its own name
            "(isinstance(source, str)) or True",  # no loader that we know gives bytes
            "ast.get_docstring(node, clean=None)",  # only whether there is one is asked
            "ast.get_docstring(node, )",
            "ast.get_docstring(node, clean=True)",
        ),
    ),
    Explained(
        "core.aggregate.compatibility",
        "the order of changes of one level",
        ("key=None", "sorted(found, reverse"),
    ),
    Explained(
        "core.aggregate.compatibility", "an aggregate's name has no dot", ('wire_type.partition(".")[2]',)
    ),
    Explained(
        "core.aggregate.json_schema",
        _FALSE,
        (
            'alternative.get("$ref", None)',
            'alternative.get("$ref", )',
            '"__name__", None)',
            '"__name__", "XXXX")',
        ),
    ),
    Explained(
        "core.aggregate.shapes",
        "a document without `$defs` has no reference that would be looked up",
        ('.get("$defs", None)', '.get("$defs", )'),
    ),
    Explained(
        "core.aggregate.shapes",
        _FALSE,
        ('old.get("$ref", None)', 'old.get("$ref", )', 'new.get("$ref", None)', 'new.get("$ref", )'),
    ),
    Explained("core.aggregate.shapes", _SAME, ("today.items() < before.items()", '"XXenumXX"', '"ENUM"')),
    Explained("core.aggregate.upcasting", "only the number of parameters is asked", (".bind(None)",)),
    Explained("core.aggregate.values", _FALSE, ('"array_like", None)',)),
    Explained(
        "core.aggregate.values",
        "neither an object nor a list: nothing is looked for in it, whatever its type",
        ("return members[1]",),
    ),
    Explained("core.aggregate.values", "asked of tagged objects only, which have it", ('"tag_field", )',)),
    Explained("core.deferral.later", "the hour is the limit long before", ("min(attempt - 1, 41)",)),
    Explained("core.deferral.later", "big is the default from Python 3.11 on", ("int.from_bytes(digest, )",)),
    Explained(
        "core.deferral.document",
        "reading a command looks at its value and its headers only",
        ("Record(None, record", "record.offset, None, record", "record.timestamp, None, written"),
    ),
    Explained("core.deferral.entry", _SAME, ('(key or b"XXXX")',)),  # neither has a slash
    Explained("core.digest", "big is the default from Python 3.11 on", ("state).digest(), )",)),
    Explained(
        "core.messages.command", _GUARD, (">= MAX_ATTRIBUTE", "MAX_ATTRIBUTE / 4", "MAX_ATTRIBUTE // 5")
    ),
    Explained(
        "core.messages.command",
        _SAME,
        ('.decode("LATIN-1")', "msgspec.json.decode(raw, ) if"),  # what starts with a quote is text
    ),
    Explained("core.messages.nesting", _GUARD, ('data.count(b"{") < most',)),
    Explained(
        "core.messages.nesting", "a match is a bracket or starts with a quote", ('b"XX[{XX"', 'b"XX]}XX"')
    ),
    Explained(
        "core.messages.payload_reference",
        "the data that are put in have the name of those that stand there, so that they take their place",
        ('(*ATTRIBUTES, "XXdataXX")', '(*ATTRIBUTES, "DATA")'),
    ),
    Explained("core.messages.timestamps", "the moment is the same in any time zone", (".astimezone(None)",)),
    Explained("owner.claim", "neither text is a claim", ('(metadata or "XXXX")',)),
    Explained(
        "owner.position",
        _SAME,
        (
            "log.committed >= at else",  # where they are equal, so are the two answers
            "at < log.committed",  # asked where `at` is below the start, and the committed offset is not
            "(log.committed or 1) <=",  # a claim rides with an offset: without one nothing was accepted
        ),
    ),
    Explained("proof.deferrals", _GUARD, ("if (said) or True else ()", "(offset is None) and False")),
    Explained(
        "proof.hashes.certificate",
        _SAME,
        (
            "= +1, 0, hashlib",  # before the first record nothing is counted, so that any number does
            "= -2, 0, hashlib",
            "if start <= was.end",  # the stretch in which the certificate ends was taken out
        ),
    ),
    Explained(
        "proof.partition",
        "of a window of 0 the outcomes of a millisecond more are kept",
        ("scope.longest_window or 1",),
    ),
    Explained("proof.join", _SAME, ("if offset >= command)",)),  # asked once the command itself has none
    Explained("proof.process.reactions", _FALSE, ("begun = None",)),
    Explained(
        "state.checkpoint.folder",
        _SAME,
        (
            "file.name.removeprefix(DATA_SUFFIX) < oldest",  # the ends of names of one length decide nothing
            'return name.partition("-")[0]',  # each upload has a millisecond of its own
        ),
    ),
    Explained("state.checkpoint.folder", "the file at once: it costs memory only", ("file.read(None)",)),
    Explained(
        "state.checkpoint.workplace",
        _SAME,
        ("os.O_RDONLY & os.O_DIRECTORY",),  # only folders have such names
    ),
    Explained(
        "state.checkpoint.workplace",
        "only a second process that removes the folder at the same moment shows it",
        ("rmtree(place, ignore_errors=None)", "rmtree(place, )", "rmtree(place, ignore_errors=False)"),
    ),
    Explained(
        "state.decoded_states", "a byte more or less of an estimate", ("get(aggregate_id, 1)", "_total < 0.9")
    ),
    Explained(
        "state.deferred_table", _UNSEEN, ("+ key, None, db=", "+ key, db=self._db)", '+ key, b"XXXX", db=')
    ),
    Explained(
        "state.deferred_table",
        _SAME,
        (
            "== (subject, command_id)) or True",  # two ids would need one digest of 32 bytes
            "while there or cursor",  # the index is the last in the database
        ),
    ),
    Explained("proof.versions", "asked where the two are not equal", ("if begins <= version else",)),
    Explained("proof.scope", "an aggregate's name has no dot", ('event.type.partition(".")[2]',)),
    Explained(
        "state.errors",
        _SAME,
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
    Explained("state.lmdb_store", _MESSAGE, ("NotOwnerError(None)",)),
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
    Explained("state.trace_index", "below every command", ("else -2",)),
)
