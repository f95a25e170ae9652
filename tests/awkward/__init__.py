"""A package of aggregates that nobody should write."""
