"""The commands of a process, judged by the events that it heard. Pure."""
