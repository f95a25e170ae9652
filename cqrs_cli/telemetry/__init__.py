"""Reports of owners and tasks while they work: signed datagrams, and status files. No decision depends on a report."""
