"""The promises that every database of projections keeps. A subclass provides an empty database as `database`."""

from tests.following.projections.contract.mistakes import MistakesContract
from tests.following.projections.contract.projecting import ProjectingContract
from tests.following.projections.contract.swap import SwapContract
from tests.following.projections.contract.swap_faults import SwapFaultsContract


class DatabaseContract(ProjectingContract, MistakesContract, SwapContract, SwapFaultsContract):
    """All contracts. A server has `ServerContract`, too."""
