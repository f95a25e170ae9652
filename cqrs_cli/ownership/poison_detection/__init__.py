"""Poison-record detection: finds the one command that a worker cannot decide, without failing other commands."""
