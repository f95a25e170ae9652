"""Joins past commands with their results for `cqrs whatif`, and compares the results with the results of other code."""
