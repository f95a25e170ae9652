"""Numbers as users read them."""

from cqrs_cli.formatting import smoothed


def test_smoothed_rates_follow_slowly() -> None:
    assert [smoothed(0, 100), smoothed(100, 0), smoothed(100, -5)] == [100, 60, 60]
