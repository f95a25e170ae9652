"""What a process sent, judged by the events that it heard. Pure."""
