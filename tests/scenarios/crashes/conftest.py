"""Owners in this process notice at once."""

from tests.support.impatient import contradictions_are_believed_at_once, idle_owners_look_often

__all__ = ["contradictions_are_believed_at_once", "idle_owners_look_often"]
