"""The promises of every store. A subclass tests a store by its fixture `store`, which must be empty."""

import pytest
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.messages.record import Record
from cqrs_cli.state import encoding
from cqrs_cli.state.evidence import evidence
from cqrs_cli.state.store import NotOwnerError, Positions, Store, WriteBatch
from tests.state.values import WINDOW, decision, find_decision, find_state, positions_at, stored_state, write

UUID = "0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d"
LONG = "x" * 1024  # the longest id that the contract of the messages allows

#: (subject, id) pairs that a wrong key encoding would confuse.
SIMILAR_IDS = [
    ("c", "ab"),
    ("bc", "a"),
    ("abc", ""),
    ("\x02", ""),
    # a UUID whose bytes are text, and this text with its length after it
    ("s\0\0\0\x10", "6f6f6f6f-6f6f-6f6f-6f6f-6f6f6f6f6f6f"),
    ("s", "o" * 16),
    # the dashes in other places, or too many
    ("a", UUID.replace("-", "") + "----"),
    ("ax", "--" + UUID[2:]),
    ("x", "98f2c47c-1e7b-8a9d-550d-6f3a1b2c3d61"),
    ("a", UUID),
    (UUID, "a"),
    ("a", UUID.upper()),
    ("a", UUID.replace("-", "")),
    ("a", bytes.fromhex(UUID.replace("-", "")).decode("latin-1")),
    ("a", "00000000-0000-0000-0000-000000000000"),
    ("a\0", ""),
    ("a", "\0"),
    ("a", LONG),
    (LONG, "a"),
    ("a", LONG + "y"),
    (LONG + "y", "a"),
    ("é" * 400, UUID),
]


def out_of_memory() -> None:
    raise MemoryError


class StoreContract:
    def test_an_empty_store_knows_nothing(self, store: Store) -> None:
        assert (store.token(), store.code_digest(), store.positions()) == ("", "", Positions())
        assert (store.count(), list(store.items())) == (0, [])
        assert (find_state(store, "a"), find_decision(store, "a", "1")) == (None, None)

    def test_applied_changes_are_found(self, store: Store) -> None:
        write(
            store, clock=5, states={"a": stored_state(7, b'{"n":1}')}, dedup_entries={("a", "1"): decision(5)}
        )
        assert find_state(store, "a") == stored_state(7, b'{"n":1}')
        assert find_decision(store, "a", "1") == decision(5)
        assert store.positions() == Positions(commands=1, clock=5)

    @pytest.mark.parametrize("name", ["b", LONG, LONG + "y"])
    def test_dropped_aggregates_are_gone(self, store: Store, name: str) -> None:
        write(store, states={"a": stored_state(1), name: stored_state(2)})
        store.drop_aggregates([name, "nobody"], store.token())
        assert (find_state(store, "a"), find_state(store, name), store.count()) == (stored_state(1), None, 1)

    def test_only_the_owner_drops(self, store: Store) -> None:
        write(store, states={"a": stored_state(1)})
        with pytest.raises(NotOwnerError):
            store.drop_aggregates(["a"], "other")
        with pytest.raises(NotOwnerError):
            store.set_value("kept", b"4", "other")
        assert (find_state(store, "a"), store.get_value("kept")) == (stored_state(1), b"")
        store.set_value("kept", b"4", store.token())
        assert store.get_value("kept") == b"4"

    @pytest.mark.parametrize("subject", ["a", LONG])
    def test_inherited_decisions_keep_their_partition(self, store: Store, subject: str) -> None:
        own, inherited = decision(5), replace(decision(5, status="rejected"), partition=0)
        write(store, clock=5, dedup_entries={(subject, "1"): inherited, (subject, "2"): own})
        assert [find_decision(store, subject, id) for id in "12"] == [inherited, own]

    @pytest.mark.parametrize("lengths", [(-1,), (0,), (1,), (-1, 0, 1)])
    def test_longest_keys_are_found_again(self, store: Store, lengths: tuple[int, ...]) -> None:
        names = ["a" * (encoding.MAX_KEY + length) for length in lengths]
        ids = [(name[len(encoding.dedup_key("", UUID)) :], UUID) for name in names]
        assert [len(encoding.dedup_key(*pair)) for pair in ids] == [len(name) for name in names]
        write(
            store, states=dict.fromkeys(names, stored_state()), dedup_entries=dict.fromkeys(ids, decision())
        )
        assert all(find_state(store, name) == stored_state() for name in names)
        assert all(find_decision(store, *pair) == decision() for pair in ids)

    def test_a_newer_state_replaces_the_older(self, store: Store) -> None:
        write(store, states={"a": stored_state(1), "b": stored_state(1)})
        write(store, states={"a": stored_state(2)})
        assert dict(store.items()) == {"a": stored_state(2), "b": stored_state(1)}
        assert store.count() == 2

    @pytest.mark.parametrize("status", ["accepted", "unchanged", "rejected"])
    def test_every_status_is_remembered(self, store: Store, status: str) -> None:
        write(store, dedup_entries={("a", "1"): decision(status=status)})
        assert find_decision(store, "a", "1") == decision(status=status)

    def test_the_largest_numbers_survive(self, store: Store) -> None:
        largest = 2**53
        largest_state = replace(stored_state(1), version=largest, offset=2**62, eventindex=9_999)
        largest_decision = replace(decision(), offset=2**62, version=largest, events=10_000)
        write(store, states={"a": largest_state}, dedup_entries={("a", "1"): largest_decision})
        assert (find_state(store, "a"), find_decision(store, "a", "1")) == (largest_state, largest_decision)

    @pytest.mark.parametrize("length", [510, 511, 512, 1024])
    def test_long_aggregate_ids_stay_distinct(self, store: Store, length: int) -> None:
        names = ["a" * length, "a" * (length - 1) + "b", "é" * (length // 2)]
        write(store, states={name: stored_state(n, name[:n].encode()) for n, name in enumerate(names, 1)})
        assert dict(store.items()) == {
            name: stored_state(n, name[:n].encode()) for n, name in enumerate(names, 1)
        }
        assert [find_state(store, name) for name in names] == [
            stored_state(n, names[n - 1][:n].encode()) for n in (1, 2, 3)
        ]

    def test_similar_ids_stay_distinct(self, store: Store) -> None:
        write(store, dedup_entries={ids: decision(offset=n) for n, ids in enumerate(SIMILAR_IDS)})
        assert [find_decision(store, *ids) for ids in SIMILAR_IDS] == [
            decision(offset=n) for n in range(len(SIMILAR_IDS))
        ]

    @pytest.mark.parametrize("missing", SIMILAR_IDS)
    def test_similar_id_finds_nothing(self, store: Store, missing: tuple[str, str]) -> None:
        write(store, dedup_entries={ids: decision() for ids in SIMILAR_IDS if ids != missing})
        assert find_decision(store, *missing) is None

    def test_id_is_remembered_throughout_window(self, store: Store) -> None:
        write(store, clock=999, dedup_entries={("a", "1"): decision(999)})
        write(store, clock=999 + WINDOW)
        assert find_decision(store, "a", "1") == decision(999)

    def test_old_segments_are_dropped(self, store: Store) -> None:
        write(store, clock=999, dedup_entries={("a", "1"): decision(999)})
        write(store, clock=2 * WINDOW)
        assert find_decision(store, "a", "1") is None

    @pytest.mark.parametrize("clock", [2 * WINDOW, 3 * WINDOW, 4 * WINDOW, 17 * WINDOW])
    def test_clock_leap_drops_old_segments(self, store: Store, clock: int) -> None:
        write(store, clock=WINDOW, dedup_entries={("a", "0"): decision(0), ("a", "1"): decision(WINDOW)})
        write(
            store,
            clock=clock,
            dedup_entries={("a", "2"): decision(clock), ("a", "3"): decision(clock - WINDOW)},
        )
        assert find_decision(store, "a", "0") is None
        assert find_decision(store, "a", "1") == (decision(WINDOW) if clock == 2 * WINDOW else None)
        assert find_decision(store, "a", "2") == decision(clock)
        assert find_decision(store, "a", "3") == decision(clock - WINDOW)

    def test_too_old_decision_is_not_kept(self, store: Store) -> None:
        write(store, clock=5 * WINDOW, dedup_entries={("a", "1"): decision(4 * WINDOW - 1)})
        assert find_decision(store, "a", "1") is None

    @pytest.mark.parametrize(("first", "second"), [(1500, 1600), (1500, 2500), (1999, 2000)])
    def test_later_decision_answers_for_id(self, store: Store, first: int, second: int) -> None:
        write(store, clock=2500, dedup_entries={("a", "1"): decision(first, offset=900)})
        later_decision = decision(
            second, offset=2, status="rejected"
        )  # offsets begin at 0 again in a recreated topic
        write(store, dedup_entries={("a", "1"): later_decision})
        assert find_decision(store, "a", "1") == later_decision

    def test_the_clock_does_not_go_back(self, store: Store) -> None:
        write(store, clock=7)
        with pytest.raises(ValueError, match="from 7 to 6"):
            write(store, clock=6)

    def test_segment_after_clock_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="after the clock"):
            write(store, clock=999, states={"a": stored_state()}, dedup_entries={("a", "1"): decision(1000)})
        assert (store.count(), store.positions()) == (0, Positions())

    def test_token_is_replaced(self, store: Store) -> None:
        store.take_ownership("first", expected="")
        store.take_ownership("second", expected="first")
        assert store.token() == "second"

    def test_only_the_expected_token_is_replaced(self, store: Store) -> None:
        store.take_ownership("first", expected="")
        with pytest.raises(NotOwnerError):
            store.take_ownership("third", expected="second")
        assert store.token() == "first"

    def test_taking_keeps_positions(self, store: Store) -> None:
        write(store, clock=9)
        store.take_ownership("me", expected="")
        write(store, clock=9)
        assert (store.token(), store.positions()) == ("me", Positions(commands=2, clock=9))

    @pytest.mark.covers("one-owner")
    @pytest.mark.parametrize("token", ["", "m", "me2"])
    def test_another_token_changes_nothing(self, store: Store, token: str) -> None:
        store.take_ownership("me", expected="")
        with pytest.raises(NotOwnerError):
            store.apply(
                WriteBatch(
                    token, Positions(), positions_at(0, 1), {"a": stored_state()}, {("a", "1"): decision()}
                )
            )
        assert (store.count(), store.positions(), find_decision(store, "a", "1")) == (0, Positions(), None)

    @pytest.mark.parametrize(
        "positions",
        [
            Positions(commands=1),
            Positions(events=1),
            Positions(outcomes=1),
            Positions(clock=1),
            Positions(deferred=1),
            Positions(last_event=evidence(Record(0, 0))),
            Positions(last_outcome=evidence(Record(0, 0))),
        ],
    )
    def test_other_positions_change_nothing(self, store: Store, positions: Positions) -> None:
        with pytest.raises(NotOwnerError):
            store.apply(
                WriteBatch(
                    "", positions, positions_at(10, 10), {"a": stored_state()}, {("a", "1"): decision()}
                )
            )
        assert (store.count(), store.positions(), find_decision(store, "a", "1")) == (0, Positions(), None)

    def test_refused_change_drops_no_segment(self, store: Store) -> None:
        write(store, dedup_entries={("a", "1"): decision()})
        with pytest.raises(NotOwnerError):
            store.apply(WriteBatch("other", store.positions(), positions_at(9 * WINDOW, 9)))
        assert find_decision(store, "a", "1") == decision()

    def test_change_that_fails_leaves_nothing(self, store: Store) -> None:
        write(store, clock=WINDOW, states={"a": stored_state(1)}, dedup_entries={("a", "1"): decision()})
        old_positions = store.positions()
        with failpoints.call_at("apply.inside", out_of_memory), pytest.raises(MemoryError):
            decisions = {("a", "2"): decision(WINDOW), ("a", "1"): decision(WINDOW, offset=5)}
            write(
                store,
                clock=3 * WINDOW,
                states={"a": stored_state(2), "b": stored_state(1)},
                dedup_entries=decisions,
            )
        assert (dict(store.items()), store.count(), store.positions()) == (
            {"a": stored_state(1)},
            1,
            old_positions,
        )
        assert (find_decision(store, "a", "1"), find_decision(store, "a", "2")) == (decision(), None)

    def test_only_owner_sets_code_digest(self, store: Store) -> None:
        store.take_ownership("me", expected="")
        store.set_code_digest("abc", token="me")
        with pytest.raises(NotOwnerError):
            store.set_code_digest("def", token="other")
        assert store.code_digest() == "abc"

    def test_view_ignores_later_writes(self, store: Store) -> None:
        write(store, states={"a": stored_state(1)}, dedup_entries={("a", "1"): decision()})
        with store.view() as view:
            write(store, clock=9 * WINDOW, states={"a": stored_state(2), "b": stored_state(1)})
            assert (view.find_state("a"), view.find_state("b")) == (stored_state(1), None)
            assert view.find_dedup_entry("a", "1") == decision()

    def test_listing_ignores_later_writes(self, store: Store) -> None:
        write(store, states={"a": stored_state(1), "b": stored_state(1)})
        listing = store.items()
        first = next(listing)
        write(store, states={"a": stored_state(2), "b": stored_state(2), "c": stored_state(1)})
        assert dict([first, *listing]) == {"a": stored_state(1), "b": stored_state(1)}

    def test_closing_twice_is_harmless(self, store: Store) -> None:
        store.close()
        store.close()
