"""The changes that no test has to notice: in a class, by what was changed, or one by one."""

import re

from tests.mutations.change import SAME, Change, Class, Explained
from tests.mutations.explained_state import OF_STATE

_LITERAL = re.compile(r"""\"[^"]*"|'[^']*'""")


def _is_wording(change: Change) -> bool:
    """True if the change is within one literal that is a sentence, or part of one."""
    literals = zip(*map(_LITERAL.findall, (change.line, change.became)), strict=False)
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


def _is_list(change: Change) -> bool:
    return '", ".join(' in change.line and '"XX, XX".join(' in change.became


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
    Class("what stands between the parts of a list in a message", _is_list),
    Class("`strict` of a zip whose arguments have one length: an assertion that never fails", _is_zip),
    Class("the name of a failpoint: processes are killed there by the tests with a broker", _is_failpoint),
)

#: Reasons that come more than once.
_FALSE = "the default is only ever tested for being false, and the other one is, too"
_FIRST = "the first record says it"
_GUARD = "a cheap test before the exact one: it costs time only"
_DIGEST = "any other separator does as well: digests are compared with those of the same code only"

EXPLAINED: tuple[Explained, ...] = (
    Explained("core.aggregate.annotations", _FALSE, ('"__parameters__", None)',)),
    Explained("core.aggregate.code_digest", _DIGEST, ('"XX\\0XX".join(',)),
    Explained(
        "core.aggregate.code_digest",
        SAME,
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
    Explained("core.aggregate.invalid", "no package has that name", ('package: str = "XXXX"',)),
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
    Explained("core.aggregate.shapes", SAME, ("today.items() < before.items()", '"XXenumXX"', '"ENUM"')),
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
    Explained("core.deferral.entry", SAME, ('(key or b"XXXX")',)),  # neither has a slash
    Explained("core.digest", "big is the default from Python 3.11 on", ("state).digest(), )",)),
    Explained("core.overlay", _FIRST, ('timestamp: int | None = ""', "self.time = None", 'time = "XXXX"')),
    Explained("core.overlay", SAME, (">= self.done.clock",)),
    Explained("core.overlay", "nothing is told before", ("self.told = note_refusal",)),
    Explained("core.messages.reasons", "no reason has that name", ("(reason is None) and False",)),
    Explained(
        "core.deferral.deferrals", "only where nothing is deferred", ('= "XXXX",', "partition: int = 1")
    ),
    Explained("core.handle", "one more than enough is too many, too", ("MAX_EVENTS + 2",)),
    Explained(
        "core.handle",
        "the reference has the name of the data that stand there, and takes their place",
        ("None if (large) and False",),
    ),
    Explained("core.decide", "no decision without a fingerprint is remembered", ("deferrals = 1, None",)),
    Explained("core.decide", "without deferred commands there is none at any place", ("active) or True",)),
    Explained(
        "core.deferral.table",
        "when the heap is made anew: it costs memory only",
        (">= 2 * len(self._entries)", "(self._entries) - 1000", "> 3 * len(self._entries)", "+ 1001"),
    ),
    Explained("core.deferral.table", SAME, ("before.said or 1",)),  # without an offset the topic has no name
    Explained(
        "core.plain",
        "the other path decides it: it costs time only",
        (">= self._most_bytes", ">= self._most_data", "check_nesting(None)", "check_nesting(bytes(None))"),
    ),
    Explained(
        "core.messages.command", _GUARD, (">= MAX_ATTRIBUTE", "MAX_ATTRIBUTE / 4", "MAX_ATTRIBUTE // 5")
    ),
    Explained(
        "core.messages.command",
        SAME,
        ('.decode("LATIN-1")', "msgspec.json.decode(raw, ) if"),  # what starts with a quote is text
    ),
    Explained("core.checks", "nothing is skipped: unknown members are refused", ("if data.isascii():",)),
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
    Explained("ownership.claim", "neither text is a claim", ('(metadata or "XXXX")',)),
    Explained(
        "deciding.position",
        SAME,
        (
            "log.committed >= at else",  # where they are equal, so are the two answers
            "at < log.committed",  # asked where `at` is below the start, and the committed offset is not
            "(log.committed or 1) <=",  # a claim rides with an offset: without one nothing was accepted
        ),
    ),
    Explained("proof.deferrals", _GUARD, ("if (said) or True else ()", "(offset is None) and False")),
    Explained(
        "proof.certificate",
        SAME,
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
    Explained("proof.join", SAME, ("if offset >= command)",)),  # asked once the command itself has none
    Explained(
        "proof.dedup_index",
        "of a state only the version and its command are read",
        ('StoredState(version, command, 1, b"")', 'StoredState(version, command, 0, b"XXXX")'),
    ),
    Explained("proof.join", "the first value is taken at once", ('self._value: _T | None = ""',)),
    Explained("proof.outcomes", SAME, ("return True",)),  # up to the last one there is an outcome
    Explained("proof.reactions", _FALSE, ("begun = None",)),
    Explained(
        "proof.checks",
        SAME,
        (
            'outcome.decidedat or "XXXX"',  # no time, either
            "Refused(Reason.KEY_MISSING, None)",  # only the reason is looked at
            'Refused(Reason.KEY_MISSING, "XXXX")',
        ),
    ),
    Explained("proof.duplicates", SAME, ("ago = 1 if before is None",)),  # it is asked for where there is one
    Explained(
        "proof.events",
        SAME,
        ("_command = None", "_command = +1", "_command = -2"),  # it is looked at together with its events
    ),
    Explained("proof.events", "nobody reads or asks after the end", ('self._open = ""',)),
    Explained(
        "proof.scope", _FIRST, ('_timestamp: int | None = ""', "self._text = None", 'self._text = "XXXX"')
    ),
    Explained(
        "proof.partition",
        "it is asked for after it was made",
        ('Carried | None = ""', 'Rules | None = ""'),
    ),
    Explained("proof.partition", "how many entries make one write", ("DedupIndex(scratch.store, )",)),
    Explained(
        "proof.versions", "the rules say with how many it begins", ("aggregates = None", "aggregates = 1")
    ),
    Explained(
        "proof.dedup_index",
        "how many entries make one write",
        ("len(self._states) - len(self._ids)", "> self._flush_every"),
    ),
    Explained("proof.dedup_index", SAME, (">= self.clock",)),
    Explained(
        "proof.dedup_index",
        "a snapshot ends in the same way after an error",
        ("(None, error, trace)", "(kind, None, trace)", "(kind, error, None)"),
    ),
    Explained("proof.traces", "below every command", ("self.last = -2",)),
    Explained("proof.traces", _FALSE, ("is_out_of_order = None",)),
    Explained("proof.traces", "the least of all stays the least", ("command <= self.first",)),
    Explained("proof.versions", "asked where the two are not equal", ("if begins <= version else",)),
    Explained("proof.scope", "an aggregate's name has no dot", ('event.type.partition(".")[2]',)),
    *OF_STATE,
)
