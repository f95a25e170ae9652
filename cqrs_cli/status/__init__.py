"""The status of a partition, as `status`, `top`, `doctor`, `/readyz` and the metrics show it.

`partition` defines the status, and `columns` is the only list of its displayed columns. `aggregates`, `subscriptions`
and `projections` read the status.
"""
