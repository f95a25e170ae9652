"""The state machine of deferred commands, as pure functions."""
