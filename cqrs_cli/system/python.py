"""The build of the running Python, and the variables of its environment that break libraries."""

import sys
import sysconfig
import warnings

from cqrs_cli.errors import ConfigurationError


def is_optimized(
    arguments: object = None, platform: str = sys.platform, prefix: str = sys.base_prefix
) -> bool:
    """True if Python was built with profile-guided optimisation: deciding then takes a tenth less CPU time.

    The configure `arguments` of such a build show it. Distributions build their Python in `/usr` in this way, too.
    """
    is_declared = "--enable-optimizations" in str(arguments or sysconfig.get_config_var("CONFIG_ARGS"))
    return is_declared or (platform == "linux" and prefix == "/usr")


def require_assertions(optimize: int = sys.flags.optimize) -> None:
    """Raise `ConfigurationError` if Python skips assertions: kafka-python has `assert` statements that read
    bytes of an answer.
    """
    if optimize:
        raise ConfigurationError(
            "Python runs without assertions, which a library needs to read Kafka's answers",
            "unset PYTHONOPTIMIZE, and leave out -O",
        )


def tolerate_warnings() -> None:
    """Turn `PYTHONWARNINGS=error` off in this process: the warnings come from libraries, so users cannot fix them."""
    warnings.filters[:] = [  # type: ignore[index]
        ("ignore", *filter_parts) if action == "error" else (action, *filter_parts)
        for action, *filter_parts in warnings.filters
    ]
