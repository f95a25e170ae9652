"""The mutants that may survive: `make nightly` fails for a mutant that no test notices and that is not explained here.

`CLASSES` explains kinds of changes in any module, `EXPLAINED` changes of single lines. Each reason names the function,
and why callers of the function cannot see the change.
"""

import re

from tests.mutations.change import Change, ChangeClass, Explanation

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
    return change.line.startswith("reached(")


CLASSES = (
    ChangeClass(
        "a message keeps its words, in other letters or between XX: no test compares the whole message",
        _is_wording,
    ),
    ChangeClass("a message quotes one character more of a text, such as an id", _is_quote_length),
    ChangeClass(
        "a message separates the items of a list by other characters than a comma", _is_list_separator
    ),
    ChangeClass("`strict` of a `zip` whose arguments always have equal lengths, so it never raises", _is_zip),
    ChangeClass(
        "a failpoint has another name: only tests with a broker stop processes at failpoints", _is_failpoint
    ),
)

#: The default byte order of `int.from_bytes` and `int.to_bytes`.
_BYTE_ORDER = "the removed argument is the default since Python 3.11"

EXPLAINED: tuple[Explanation, ...] = (
    Explanation(
        "core.deferral.later",
        "`next_attempt_time` limits the delay to an hour, which doubling reaches long before attempt 41",
        ("min(attempt - 1, 41)",),
    ),
    Explanation("core.deferral.later", _BYTE_ORDER, ("int.from_bytes(digest, )",)),
    Explanation(
        "core.deferral.document",
        "`_encode_readable` passes the record to `read_command`, which ignores offset, timestamp and key",
        ("Record(None, record", "record.offset, None, record", "record.timestamp, None, document"),
    ),
    Explanation(
        "core.deferral.entry",
        '`read_deferral_key` reads a missing key as b"" or as b"XXXX", and both are malformed keys',
        ('(key or b"XXXX")',),
    ),
    Explanation(
        "core.deferral.deferrals",
        "a `Deferrals` without topic id and partition belongs to a batch that defers no command",
        ('= "XXXX",', "partition: int = 1"),
    ),
    Explanation(
        "core.deferral.table",
        "`DeferralTable` drops outdated items of its heap sooner or later, which changes its memory only",
        (">= 2 * len(self._entries)", "(self._entries) - 1000", "> 3 * len(self._entries)", "+ 1001"),
    ),
    Explanation(
        "core.checks",
        "`read_data` skips its own check of UTF-8, but the decoder checks all members: it refuses unknown ones",
        ("if data.isascii():",),
    ),
    Explanation(
        "ownership.claim",
        '`parse_claim` reads missing metadata as "" or as "XXXX", and neither text is a claim',
        ('(metadata or "XXXX")',),
    ),
    Explanation(
        "deciding.position",
        "`gap` returns an empty range for a committed offset that equals the position, in both branches",
        ("state.committed >= position",),
    ),
    Explanation(
        "deciding.position",
        "`_no_command_lost` is called with a position below the log start, so never with the committed offset",
        ("position < state.committed",),
    ),
    Explanation(
        "deciding.position",
        "`_was_loss_applied` finds a loss only in a claim, and each claim has a committed offset",
        ("(state.committed or 1) <=",),
    ),
    Explanation(
        "ownership.poison_detection.attempts",
        "`report_errors` prints a traceback without a flush: Python flushes stderr after each line anyway",
        ("file=sys.stderr, flush=None)", "file=sys.stderr, flush=False)", "file=sys.stderr, )"),
    ),
    Explanation(
        "ownership.poison_detection.suspects",
        "`Suspects.deciding` is None instead of False: the code tests only whether it is true",
        ("deaths + 1, None, seconds)",),
    ),
    Explanation(
        "ownership.poison_detection.batch_admission",
        "`BatchAdmission` has no suspect as None instead of False: the code tests only whether it is true",
        ("self._has_suspect = None",),
    ),
    Explanation(
        "state.encoding",
        "`greatest_id` of no keys is a higher bound: owners look up some new ids in vain, which costs time only",
        ('default="XXXX"',),
    ),
    Explanation(
        "state.encoding",
        "all keys go through the function that shortens long keys and keeps short keys, which costs time only",
        ("default=0) >= MAX_KEY", "default=1) > MAX_KEY"),
    ),
    Explanation(
        "state.encoding",
        "`_uuids` returns None, so `dedup_key` encodes each id alone, with the same result in more time",
        (
            *('"XXXX".join(ids)', '"XX-XX" * len(ids)', '"XX-XX") != 4', "!= 4 / len(ids)"),
            *("text[position::37]", 'replace("XX-XX", "")', 'replace("-", "XXXX")'),
        ),
    ),
    Explanation("state.encoding", _BYTE_ORDER, ("(text).to_bytes(4, )",)),
)
