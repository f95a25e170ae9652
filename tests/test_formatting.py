"""Numbers and hints as users read them."""

from cqrs_cli.formatting import did_you_mean, smoothed


def test_smoothed_rates_follow_slowly() -> None:
    assert [smoothed(0, 100), smoothed(100, 0), smoothed(100, -5)] == [100, 60, 60]


def test_similar_name_is_suggested() -> None:
    assert did_you_mean("bootstrapserver", ["ids", "bootstrapServer"]) == "did you mean bootstrapServer?"
    assert did_you_mean("since", ["ids", "bootstrapServer"]) == ""
