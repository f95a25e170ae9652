"""The build of the Python that runs this."""

import sys
import sysconfig


def is_optimized() -> bool:
    """True if it was built with profile-guided optimisation: then an owner's step takes a tenth less processor time.

    Such a build says so, but for distributions' own in `/usr`, which all are.
    """
    said = "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))
    return said or (sys.platform == "linux" and sys.base_prefix == "/usr")
