"""The checks of `cqrs doctor`: of this machine, of the cluster, of the settings. They start and change nothing."""
