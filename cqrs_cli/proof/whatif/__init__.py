"""Joins past commands with their results for `cqrs whatif`, and compares them with the results of changed code."""
