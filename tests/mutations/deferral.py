"""The mutations of deferred commands: each rule for which the model has a counterexample."""

from tests.mutations.table import Mutation

_MODEL_TESTS = "tests/core/deferral/test_model.py"
_DECIDING_TESTS = "tests/core/deferral/test_deciding.py"

DEFERRAL = [
    Mutation(
        "a final outcome does not end an entry",
        "cqrs_cli/deciding/deferred_fold.py",
        (("            ended_entries[entry.key] = None\n", "            pass\n"),),
        _MODEL_TESTS,
    ),
    Mutation(
        "a resubmitted command is deferred again by its notbefore",
        "cqrs_cli/core/deferral_checks.py",
        (("envelope.notbefore is not None and decision.deferral is None", "envelope.notbefore is not None"),),
        _MODEL_TESTS,
    ),
    Mutation(
        "the id of a deferred command is not known",
        "cqrs_cli/core/deferral_checks.py",
        (
            (
                "    if (deferral_of_id := deferrals.find_by_command_id(envelope.subject, envelope.id)) is not None:\n",
                "    if (deferral_of_id := None) is not None:\n",
            ),
        ),
        _MODEL_TESTS,
    ),
    Mutation(
        "a copy of a resubmitted command is decided",
        "cqrs_cli/core/deferral_checks.py",
        (("original is None and envelope.deferredfrom is not None", "False"),),
        _DECIDING_TESTS,
    ),
    Mutation(
        "a cancelled command is decided",
        "cqrs_cli/core/deferral_checks.py",
        (("        if deferral.cancelled:\n", "        if False:\n"),),
        _MODEL_TESTS,
    ),
    Mutation(
        "a cancel request may match itself",
        "cqrs_cli/core/deferral/deferrals.py",
        (("None if request.id == command_id else ", ""),),
        "tests/proof/test_deferrals.py",
    ),
    Mutation(
        "a simulation ignores cancellations before its start",
        "cqrs_cli/scans/whatif/deferred_before.py",
        (("entry.cancelled or cancels", "entry.cancelled"),),
        "tests/jobs/whatif/test_settings.py",
    ),
    Mutation(
        "a deferred command whose entry is lost is not stored again",
        "cqrs_cli/deciding/deferred_fold.py",
        (("    if lost_entries:\n", "    if False:\n"),),
        _MODEL_TESTS,
    ),
    Mutation(
        "a deferred command is decided with the record's fingerprint",
        "cqrs_cli/core/decide.py",
        (("deferral.fingerprint if deferral else self._fingerprint", "self._fingerprint"),),
        _DECIDING_TESTS,
    ),
    Mutation(
        "a command may be deferred without limit",
        "cqrs_cli/core/deferral/deferrals.py",
        (("        if attempt > self._limits.attempts:\n", "        if False:\n"),),
        _DECIDING_TESTS,
    ),
    Mutation(
        "a command that was resubmitted too early is decided",
        "cqrs_cli/core/deferral_checks.py",
        (("            raise failure\n        return None\n", "            pass\n        return None\n"),),
        _DECIDING_TESTS,
    ),
    Mutation(
        "an owner does not learn that its clock is ahead",
        "cqrs_cli/deciding/broker_clock.py",
        (("lead if lead > self._tolerance else 0", "0"),),
        _MODEL_TESTS,
    ),
    Mutation(
        "a decision before the due time is no violation",
        "cqrs_cli/proof/deferrals.py",
        (("milliseconds_early > self._scope.clock_tolerance\n", "False\n"),),
        "tests/proof/deferred/test_planted.py",
    ),
    Mutation(
        "the size of a deferred command is not checked until it is due",
        "cqrs_cli/core/deferral/deferrals.py",
        (("            self._require_size_limits(deferral)\n", ""),),
        _DECIDING_TESTS,
    ),
]
