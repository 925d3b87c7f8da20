"""Softmax attention as temporal-difference learning: the library under the book.

The modules are read in this order, and each depends only on those before it:

* `ictd_lib.chain`: Markov reward processes, their values and stationary distributions
* `ictd_lib.families`: random and classical chains
* `ictd_lib.context`: a trajectory, and what it says about the chain
"""

from ictd_lib.chain import (
    MarkovRewardProcess,
    closed_classes,
    stationary_distribution,
    stochastic_matrix,
)
from ictd_lib.context import Context, sample_context
from ictd_lib.families import (
    boyan_chain,
    random_boyan_chain,
    random_ergodic_chain,
    random_walk,
)

__all__ = [
    "Context",
    "MarkovRewardProcess",
    "boyan_chain",
    "closed_classes",
    "random_boyan_chain",
    "random_ergodic_chain",
    "random_walk",
    "sample_context",
    "stationary_distribution",
    "stochastic_matrix",
]
__version__ = "0.1.0"
