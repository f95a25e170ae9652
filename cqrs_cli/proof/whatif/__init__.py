"""For `cqrs whatif`: join the past commands with their results, and compare these with the results of other code."""
