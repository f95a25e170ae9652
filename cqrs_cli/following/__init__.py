"""Events from a position on, each once: processes send commands, projections keep tables, the gateway keeps states."""
