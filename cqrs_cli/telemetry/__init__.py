"""What owners and tasks tell others while they work: signed datagrams, files for `status`. It decides nothing."""
