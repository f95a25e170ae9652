"""The mutations of the topics of personal data: keys that stay, plain values that do not, master keys that rotate."""

from tests.mutations.table import Mutation

_TOPICS = "tests/kafka/topics/test_personal.py"

KEEPING = [
    Mutation(
        "keys are looked for where they are not once partitions grow",
        "cqrs_cli/kafka/topics/topics.py",
        (("return partition % self.key_partitions", "return partition"),),
        f"{_TOPICS}::test_keys_stay_when_partitions_grow",
    ),
    Mutation(
        "a keys topic may have any number of partitions",
        "cqrs_cli/kafka/topics/personal_checks.py",
        (("    if count % keys.partitions:\n", "    if False:\n"),),
        f"{_TOPICS}::test_keys_have_a_divisor_of_the_partitions",
    ),
    Mutation(
        "keys are deleted in time",
        "cqrs_cli/kafka/topics/personal_checks.py",
        (('    if (policy := keys.configs.get("cleanup.policy", "delete")) != "compact":', "    if False:"),),
        f"{_TOPICS}::test_wrong_keys_topic_names_its_fix",
    ),
    Mutation(
        "personal values stay as they were sent",
        "cqrs_cli/kafka/topics/personal_checks.py",
        (('            if info.number("retention.ms", UNLIMITED) == UNLIMITED:', "            if False:"),),
        f"{_TOPICS}::test_plain_values_are_deleted_in_time",
    ),
    Mutation(
        "dead letters keep personal values",
        "cqrs_cli/kafka/topics/topics.py",
        (("        is_plain = self.personal and kind in PLAIN_KINDS", "        is_plain = False"),),
        f"{_TOPICS}::test_failed_commands_go_as_commands_do",
    ),
]
