"""The mutations of the topics with personal data: keys that are kept, unencrypted values that are not, KEK rotation."""

from tests.mutations.table import Mutation

_KEYRING_FILE_TESTS = "tests/keys/test_keyring_file.py"
_TOPIC_TESTS = "tests/kafka/topics/test_personal.py"

KEYS_TOPIC = [
    Mutation(
        "keys are read from the wrong partition after a repartitioning",
        "cqrs_cli/kafka/topics/topics.py",
        (("return partition % self.keys_partition_count", "return partition"),),
        f"{_TOPIC_TESTS}::test_keys_stay_when_partitions_grow",
    ),
    Mutation(
        "a keys topic may have any number of partitions",
        "cqrs_cli/kafka/topics/personal_checks.py",
        (("    if count % keys.partitions:\n", "    if False:\n"),),
        f"{_TOPIC_TESTS}::test_key_partitions_divide_the_partitions",
    ),
    Mutation(
        "the keys topic may have time-based retention",
        "cqrs_cli/kafka/topics/personal_checks.py",
        (('    if (policy := keys.configs.get("cleanup.policy", "delete")) != "compact":', "    if False:"),),
        f"{_TOPIC_TESTS}::test_wrong_keys_topic_names_its_fix",
    ),
    Mutation(
        "topics with unencrypted values may have unlimited retention",
        "cqrs_cli/kafka/topics/personal_checks.py",
        (('            if info.number("retention.ms", UNLIMITED) == UNLIMITED:', "            if False:"),),
        f"{_TOPIC_TESTS}::test_unencrypted_topics_need_limited_retention",
    ),
    Mutation(
        "dead letters with personal values are kept without limit",
        "cqrs_cli/kafka/topics/topics.py",
        (
            (
                "        is_unencrypted = self.personal and kind in UNENCRYPTED_KINDS",
                "        is_unencrypted = False",
            ),
        ),
        f"{_TOPIC_TESTS}::test_dead_letters_are_kept_like_commands",
    ),
    Mutation(
        "a new keyring overwrites a keyring",
        "cqrs_cli/keys/keyring_file.py",
        (("        if path.exists():\n", "        if False:\n"),),
        f"{_KEYRING_FILE_TESTS}::test_a_keyring_is_never_overwritten",
    ),
    Mutation(
        "a rotation drops the old KEK",
        "cqrs_cli/keys/keyring_file.py",
        (
            (
                "_document({name: _kek_text(secret), **json.loads(text)})",
                "_document({name: _kek_text(secret)})",
            ),
        ),
        f"{_KEYRING_FILE_TESTS}::test_old_keys_unwrap_after_rotating",
    ),
    Mutation(
        "two programs may rotate the KEK at once",
        "cqrs_cli/storage/private.py",
        (("os.O_WRONLY | os.O_CREAT | os.O_EXCL", "os.O_WRONLY | os.O_CREAT"),),
        f"{_KEYRING_FILE_TESTS}::test_concurrent_rotation_is_refused",
    ),
    Mutation(
        "a KEK counts as unused while old records need it",
        "cqrs_cli/keys/kek_usage.py",
        (("return not self.current and not self.replaced", "return not self.current"),),
        "tests/keys/test_kek_usage.py::test_replaced_records_still_use_their_kek",
    ),
    Mutation(
        "keys stay encrypted with an old KEK",
        "cqrs_cli/deciding/owner_keys.py",
        (("if wrapped is not None and wrapped.kek_name != current_kek", "if False"),),
        "tests/deciding/test_outdated_keys.py::test_all_old_keys_are_found",
    ),
    Mutation(
        "keys under the current KEK are encrypted again",
        "cqrs_cli/deciding/owner_keys.py",
        (("if wrapped and wrapped.kek_name != self._keyring.current", ""),),
        "tests/deciding/test_outdated_keys.py::test_keys_erased_meanwhile_are_left_out",
    ),
    Mutation(
        "no record is written that lets Kafka compact an erased key",
        "cqrs_cli/deciding/key_upkeep.py",
        (("return self._tick_at is not None and time.monotonic() >= self._tick_at", "return False"),),
        "tests/deciding/test_key_upkeep.py::test_compaction_tick_follows_the_last_key",
    ),
]
