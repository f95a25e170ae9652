"""The build of the Python that runs this."""

import sys
import sysconfig


def is_optimized(
    arguments: object = None, platform: str = sys.platform, prefix: str = sys.base_prefix
) -> bool:
    """True if it was built with profile-guided optimisation: then an owner's step takes a tenth less processor time.

    Such a build says so in the `arguments` of its configuration, but for distributions' own in `/usr`, which all are.
    """
    said = "--enable-optimizations" in str(arguments or sysconfig.get_config_var("CONFIG_ARGS"))
    return said or (platform == "linux" and prefix == "/usr")
