"""The promises of every database of projections. The subclass for one gives an empty one as `place`."""

from tests.following.projections.contract.exchange import ExchangeContract
from tests.following.projections.contract.exchange_faults import ExchangeFaultsContract
from tests.following.projections.contract.mistakes import MistakesContract
from tests.following.projections.contract.projecting import ProjectingContract


class DatabaseContract(ProjectingContract, MistakesContract, ExchangeContract, ExchangeFaultsContract):
    """All of them; for a server there is `ServerContract`, too."""
