"""Commands that wait: the state machine of a deferred command, as pure functions."""
