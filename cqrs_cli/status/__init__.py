"""The status of a partition, as `status`, `top`, `doctor`, `/readyz` and the metrics show it.

`place` is the value, `columns` the only list of its displayed columns. `decided`, `heard` and `projected` read it.
"""
