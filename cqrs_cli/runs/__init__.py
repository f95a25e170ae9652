"""The parts of a run's driver that do not use Spark: the plan, the progress, other active runs, and metrics. Also the
task of a run (`task`).
"""
