"""The status of a partition, as `status`, `top`, `doctor`, `/readyz` and the metrics show it.

`place` is the value, `columns` the one list of what is shown of it. `decided`, `heard` and `projected` read it.
"""
