"""Personal fields of messages: annotations, encryption, and redacted values after the key is erased."""
