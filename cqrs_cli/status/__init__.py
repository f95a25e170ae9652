"""The state of a partition, as `status`, `top`, `doctor`, `/readyz` and the metrics show it."""
