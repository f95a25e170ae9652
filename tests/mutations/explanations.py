"""The changes that no test needs to notice: by classes, by the changed text, or one by one."""

import re

from tests.mutations.change import SAME, Change, ChangeClass, Explanation

_LITERAL = re.compile(r"""\"[^"]*"|'[^']*'""")


def _is_wording(change: Change) -> bool:
    """True if the change is within one literal that is a sentence, or a part of a sentence."""
    literals = zip(*map(_LITERAL.findall, (change.line, change.became)), strict=False)
    changed = [(old, new) for old, new in literals if old != new]
    return len(changed) == 1 and all(
        re.search("[a-z]", old) and " " in old and new.replace("XX", "").lower() == old.lower()
        for old, new in changed
    )


def _is_quote_length(change: Change) -> bool:
    if not change.old.isdigit() or change.new != str(int(change.old) + 1):
        return False
    return bool(re.search(rf"\{{[^{{}}]*\[:{change.old}\][^{{}}]*\}}", change.line))


def _is_zip(change: Change) -> bool:
    return "strict=" in change.line and (change.old, change.new) in _ZIPS


def _is_list_separator(change: Change) -> bool:
    return '", ".join(' in change.line and '"XX, XX".join(' in change.became


_ZIPS = {
    (old, new) for old in ("True", "False", "strict=True", "strict=False") for new in ("None", "False", "")
}


def _is_failpoint(change: Change) -> bool:
    return change.line.startswith("failpoints.reached(")


CLASSES = (
    ChangeClass(
        "the case or the frame of words for people: tests pin the part that says what happened", _is_wording
    ),
    ChangeClass("how much of somebody's text a message quotes", _is_quote_length),
    ChangeClass("what stands between the parts of a list in a message", _is_list_separator),
    ChangeClass("`strict` of a zip whose arguments have one length: an assertion that never fails", _is_zip),
    ChangeClass(
        "the name of a failpoint: processes are killed there by the tests with a broker", _is_failpoint
    ),
)

EXPLAINED: tuple[Explanation, ...] = (
    Explanation("core.deferral.later", "the hour is the limit long before", ("min(attempt - 1, 41)",)),
    Explanation(
        "core.deferral.later", "big is the default from Python 3.11 on", ("int.from_bytes(digest, )",)
    ),
    Explanation(
        "core.deferral.document",
        "reading a command looks at its value and its headers only",
        ("Record(None, record", "record.offset, None, record", "record.timestamp, None, written"),
    ),
    Explanation("core.deferral.entry", SAME, ('(key or b"XXXX")',)),  # neither has a slash
    Explanation(
        "core.deferral.deferrals", "only where nothing is deferred", ('= "XXXX",', "partition: int = 1")
    ),
    Explanation("core.handle", "one more than enough is too many, too", ("MAX_EVENTS + 2",)),
    Explanation("core.decide", "without deferred commands there is none at any place", ("active) or True",)),
    Explanation(
        "core.deferral.table",
        "when the heap is made anew: it costs memory only",
        (">= 2 * len(self._entries)", "(self._entries) - 1000", "> 3 * len(self._entries)", "+ 1001"),
    ),
    Explanation(
        "core.deferral.table", SAME, ("before.said or 1",)
    ),  # without an offset the topic has no name
    Explanation("core.checks", "nothing is skipped: unknown members are refused", ("if data.isascii():",)),
    Explanation("ownership.claim", "neither text is a claim", ('(metadata or "XXXX")',)),
    Explanation(
        "deciding.position",
        SAME,
        (
            "state.committed >= position\n",  # if they are equal, so are the two results
            "position < state.committed",  # reached if `position` is before the start, and the committed offset is not
            "(state.committed or 1) <=",  # a claim needs an offset: without it no loss was accepted
        ),
    ),
    Explanation("ownership.trials.slow_command", "of no command, no time is told", ("seconds: float = 1.0",)),
    Explanation(
        "ownership.trials.attempts",
        "when the log shows a traceback: stderr is flushed by itself, too",
        ("file=sys.stderr, flush=None)", "file=sys.stderr, flush=False)", "file=sys.stderr, )"),
    ),
    Explanation("ownership.trials.suspects", SAME, ("deaths + 1, None, seconds)",)),  # only its truth counts
    Explanation("ownership.trials.batch_admission", SAME, ("self._occupied = None",)),
    Explanation("state.encoding", "what is not there is not found: it costs time only", ('default="XXXX")',)),
    Explanation(
        "state.encoding",
        "each key is looked at again: it costs time only",
        ("default=0) >= MAX_KEY", "default=1) > MAX_KEY"),
    ),
    Explanation(
        "state.encoding",
        "the ids are turned into keys one by one: it costs time only",
        (
            *('"XXXX".join(ids)', '"XX-XX" * len(ids)', '"XX-XX") != 4', "!= 4 / len(ids)"),
            *("text[place::37]", 'replace("XX-XX", "")', 'replace("-", "XXXX")'),
        ),
    ),
    Explanation("state.encoding", "big is the default from Python 3.11 on", ("(text).to_bytes(4, )",)),
)
