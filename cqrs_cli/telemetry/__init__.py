"""News of owners and tasks while they work: signed datagrams, files for `status`. It decides nothing."""
