"""The promises that every database of projections keeps. A subclass provides an empty database as `database`."""

from tests.following.projections.contract.mistakes import MistakesContract
from tests.following.projections.contract.projecting import ProjectingContract
from tests.following.projections.contract.swap import ExchangeContract
from tests.following.projections.contract.swap_faults import ExchangeFaultsContract


class DatabaseContract(ProjectingContract, MistakesContract, ExchangeContract, ExchangeFaultsContract):
    """All contracts. A server has `ServerContract`, too."""
