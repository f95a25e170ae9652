"""Keys of personal fields: the ring of master keys, the records of data keys, and what is known of them."""
