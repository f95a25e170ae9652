"""A module that gets SIGTERM while it is imported; for test_interrupts.py."""

import signal

signal.raise_signal(signal.SIGTERM)
