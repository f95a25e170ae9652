"""Reports of owners and tasks while they work: signed datagrams, files for `status`. No decision depends on them."""
