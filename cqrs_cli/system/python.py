"""The build of the running Python."""

import sys
import sysconfig


def is_optimized(
    arguments: object = None, platform: str = sys.platform, prefix: str = sys.base_prefix
) -> bool:
    """True if Python was built with profile-guided optimisation: an owner's step then takes a tenth less CPU time.

    The configure `arguments` of such a build show it. Distributions build their Python in `/usr` in this way, too.
    """
    is_declared = "--enable-optimizations" in str(arguments or sysconfig.get_config_var("CONFIG_ARGS"))
    return is_declared or (platform == "linux" and prefix == "/usr")
