"""Answers to questions about what was decided, or would be."""
