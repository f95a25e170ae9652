"""One run seen from outside, without Spark: how far it is, who else is at work, its metrics."""
