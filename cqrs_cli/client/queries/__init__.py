"""Questions about what was decided, or would be: answered from the committed records, without Spark."""
