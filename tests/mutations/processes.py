"""The mutations of process managers: the rules because of which each event is reacted to once."""

from tests.mutations.table import Mutation

_BROKER_TESTS = "tests/following/processes/test_broker.py"
_CRASH_TESTS = "tests/following/processes/test_crashes.py"
_POISON_EVENT_TESTS = "tests/following/processes/test_poison_events.py"

PROCESSES = [
    Mutation(
        "a new process manager does not commit its start position",
        "cqrs_cli/following/processes/owner.py",
        (
            (
                "        session.commit([], ProcessPosition(start.offset, session.own_claim, *start[1:]))\n",
                "        session.position = ProcessPosition(start.offset, session.own_claim, *start[1:])\n",
            ),
        ),
        f"{_BROKER_TESTS}::test_start_is_committed_before_polling",
    ),
    Mutation(
        "two owners of a partition do not fence each other",
        "cqrs_cli/following/processes/writer.py",
        (
            (
                "topics.transactional_id(source.topic, source.partition)",
                'topics.transactional_id(source.topic, source.partition) + f"{time.time_ns()}"',
            ),
        ),
        f"{_CRASH_TESTS}::test_paused_owners_are_fenced[decide.after:2]",
    ),
    Mutation(
        "the position is not in the transaction of the commands",
        "cqrs_cli/following/processes/session.py",
        (
            (
                "        self.writer.commit(commands, position, self.consumer, self.child_positions)\n",
                "        self.writer.commit(commands, self.position or position, self.consumer, "
                "self.child_positions)\n"
                "        self.writer.commit([], position, self.consumer)\n",
            ),
        ),
        f"{_CRASH_TESTS}::test_killed_owners_lose_nothing[commit.after:5]",
    ),
    Mutation(
        "the position is committed before the commands",
        "cqrs_cli/following/processes/session.py",
        (
            (
                "        self.writer.commit(commands, position, self.consumer, self.child_positions)\n",
                "        self.writer.commit([], position, self.consumer)\n"
                "        self.writer.commit(commands, position, self.consumer, self.child_positions)\n",
            ),
        ),
        f"{_CRASH_TESTS}::test_killed_owners_lose_nothing[commit.after:5]",
    ),
    Mutation(
        "a position without a group offset is ignored",
        "cqrs_cli/following/processes/owner.py",
        (
            (
                "        recorded = positions.get(position_key(subscription.source))\n",
                "        recorded = positions.get(position_key(subscription.source))\n"
                "        positions = positions if session.committed_by(session.consumer).offset is not None else {}\n",
            ),
        ),
        "tests/following/processes/test_losses.py::test_lost_group_offsets_change_nothing",
    ),
    Mutation(
        "process managers react to aborted events",
        "cqrs_cli/ownership/session.py",
        (("group=slot.group, fetch_wait_max_ms=500", 'group=slot.group, isolation="read_uncommitted"'),),
        f"{_BROKER_TESTS}::test_option_starts_at_the_beginning",
    ),
    Mutation(
        "an idle owner does not look at the claim",
        "cqrs_cli/ownership/session.py",
        (("        self.check_claim()\n", ""),),
        f"{_BROKER_TESTS}::test_later_runs_take_over",
    ),
    Mutation(
        "a run waits for a dead owner's open transaction before it starts",
        "cqrs_cli/following/processes/positions.py",
        (
            (
                'read_positions(plan.connection, topics, "read_committed")',
                "read_positions(plan.connection, topics)",
            ),
        ),
        f"{_CRASH_TESTS}::test_killed_owners_lose_nothing[flush.after:4]",
    ),
    Mutation(
        "commands of a process manager go to the wrong partition",
        "cqrs_cli/following/processes/composer.py",
        (
            (
                "producer_partition(self._partitioner, encoded_key, output.partitions)",
                "hash(key) % output.partitions",
            ),
        ),
        f"{_BROKER_TESTS}::test_commands_have_ids_of_their_events",
    ),
    Mutation(
        "a lost command of a process manager is no violation",
        "cqrs_cli/proof/reactions.py",
        (
            (
                '            yield f"command {number}, for {expected.topic}, is missing"\n',
                "            pass\n",
            ),
        ),
        "tests/proof/process/test_reactions.py::test_planted_faults_are_found",
    ),
    Mutation(
        "a client may use an id reserved for process managers",
        "cqrs_cli/core/messages/command.py",
        (("        _invalid(problem)\n", "        pass\n"),),
        "tests/core/messages/test_reaction_ids.py",
    ),
    Mutation(
        "commands of a process manager may be out of order",
        "cqrs_cli/proof/reactions.py",
        (
            (
                "            if own_copy.offset < self._last_offsets.get(topic_partition, -1):\n",
                "            if False:\n",
            ),
        ),
        "tests/proof/process/test_reactions.py::test_planted_faults_are_found",
    ),
    Mutation(
        "an id that a client used before a process manager is no violation",
        "cqrs_cli/proof/reactions.py",
        (("copy.offset < own_copy.offset", "False"),),
        "tests/proof/process/test_reactions.py::test_planted_faults_are_found",
    ),
    Mutation(
        "a copy with other JSON escapes is not noticed",
        "cqrs_cli/following/processes/sent_commands.py",
        ((' or b"\\\\" in value', ""),),
        "tests/following/processes/test_sent_commands.py",
    ),
    Mutation(
        "an operator's earlier skips are forgotten",
        "cqrs_cli/following/processes/position.py",
        (("        skipped_before=position.all_skipped,\n", ""),),
        "tests/following/processes/test_verify.py::test_skips_and_starts_are_no_violations",
    ),
    Mutation(
        "the event that killed a worker is no suspect",
        "cqrs_cli/following/processes/owner.py",
        (
            (
                "        session.own_claim = with_suspects(own_claim, recorded_claim, plan.timing.batch_limit)\n",
                "        session.own_claim = own_claim\n",
            ),
        ),
        f"{_POISON_EVENT_TESTS}::test_deadly_event_stops_the_process",
    ),
    Mutation(
        "a `react` that does not end is never stopped",
        "cqrs_cli/runs/task.py",
        (("            detector.check_current_record()\n", "            pass\n"),),
        f"{_POISON_EVENT_TESTS}::test_endless_event_stops_the_process",
    ),
    Mutation(
        "a process manager does not propagate the trace context",
        "cqrs_cli/following/processes/composer.py",
        (("            **valid_propagated_attributes(recorded),\n", ""),),
        "tests/following/processes/test_compose.py::test_trace_context_is_propagated",
    ),
    Mutation(
        "a command id does not contain the event's time",
        "cqrs_cli/following/processes/composer.py",
        (("recorded.id, time, 0)", "recorded.id, 0, 0)"),),
        "tests/following/processes/test_compose.py::test_ids_derive_from_the_event",
    ),
    Mutation(
        "a process manager continues on a recreated topic",
        "cqrs_cli/following/processes/position.py",
        (("    if position.claim.topic_id != state.topic_id:", "    if False:"),),
        "tests/following/processes/test_position.py::test_inconsistencies_raise",
    ),
    Mutation(
        "verify does not compare the topic of a process manager's position",
        "cqrs_cli/following/processes/verify.py",
        (("before.position.claim.topic_id != topic_id", "False"),),
        "tests/following/processes/test_verify.py::test_position_of_recreated_topic",
    ),
    Mutation(
        "a process manager continues after its group offset was moved",
        "cqrs_cli/following/processes/position.py",
        (("    if group_offset is not None and group_offset != position.offset:", "    if False:"),),
        "tests/following/processes/test_position.py::test_inconsistencies_raise",
    ),
    Mutation(
        "a process manager with lost positions starts anew",
        "cqrs_cli/following/processes/position.py",
        (("        if group_offset is None:\n", "        if True:\n"),),
        "tests/following/processes/test_position.py::test_inconsistencies_raise",
    ),
    Mutation(
        "an accepted loss is accepted again",
        "cqrs_cli/following/processes/position.py",
        (("return position.accepted == accepted_loss and", "return False and"),),
        "tests/following/processes/test_position.py::test_accepted_losses_count_once",
    ),
    Mutation(
        "an event can be skipped although it did not stop the process manager",
        "cqrs_cli/following/processes/position.py",
        (
            (
                "    if skip is not None and skip == position.stopped == position.offset:",
                "    if skip == position.offset:",
            ),
        ),
        "tests/following/processes/test_position.py::test_skips_are_for_the_event_that_stopped",
    ),
    Mutation(
        "the event that stops a process manager is not recorded",
        "cqrs_cli/following/processes/loop.py",
        (("stopped=None if stop is None else stop.offset", "stopped=None"),),
        "tests/following/processes/test_stops.py::test_process_stops_at_the_event",
    ),
]
