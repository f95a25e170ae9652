"""The checks of `cqrs doctor` on this machine, the cluster and the settings. They start no program."""
