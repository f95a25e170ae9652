"""Keys of personal fields: the keyring, the records of the keys topic, and the data keys that readers know."""
