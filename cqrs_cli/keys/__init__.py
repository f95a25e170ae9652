"""Keys of personal fields: the keyring, the records of data keys, and the decryption of events for readers."""
