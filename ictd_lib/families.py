"""Families of chains: the tasks on which the book measures.

Each function returns a `MarkovRewardProcess`. The random ones draw everything from
the generator that they are given.
"""

from __future__ import annotations

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import checked_count, checked_discount


def random_boyan_chain(
    n_states: int, rng: np.random.Generator, discount: float
) -> MarkovRewardProcess:
    """Random Boyan chain, the family on which the paper pretrains.

    With :math:`u_i \\sim U(0.01, 0.99)`: state ``i`` goes to ``i + 1`` with probability
    :math:`u_i` and to ``i + 2`` otherwise; the second to last goes to the last; the last
    goes anywhere, by weights :math:`U(0.01, 0.99)` that are normalised. Rewards are
    :math:`r(s) \\sim U(-1, 1)`.

    Parameters
    ----------
    n_states : int
        Number of states, at least 2.
    rng : numpy.random.Generator
        Source of all randomness.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Raises
    ------
    ValueError
        If ``n_states`` is less than 2, or the discount isn't in [0, 1).

    Notes
    -----
    Source: Xie et al. (2026), appendix F, after Boyan (2002).
    """
    n_states = checked_count("n_states", n_states, at_least=2)
    discount = checked_discount(discount)  # before anything is drawn
    transition = np.zeros((n_states, n_states))
    for i, u in enumerate(rng.uniform(0.01, 0.99, n_states - 2)):
        transition[i, i + 1] = u
        transition[i, i + 2] = 1 - u
    transition[-2, -1] = 1
    weights = rng.uniform(0.01, 0.99, n_states)
    transition[-1] = weights / weights.sum()
    return MarkovRewardProcess(transition, rng.uniform(-1, 1, n_states), discount)


def boyan_chain(discount: float, restart: bool = True) -> MarkovRewardProcess:
    """Boyan's original chain of 13 states.

    It starts in state 12. From ``s >= 2`` it goes to ``s - 1`` or ``s - 2``, with
    probability 1/2 each and reward -3; from 1 to 0 with reward -2. Without discount
    and until it reaches 0, the values are :math:`-2 s` exactly.

    Parameters
    ----------
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    restart : bool
        What follows state 0, whose reward is 0: state 12 again, which makes the chain
        ergodic, or (``False``) state 0 for ever, as in the original.

    Notes
    -----
    Source: Boyan (2002), section 5.
    """
    transition = np.zeros((13, 13))
    for s in range(2, 13):
        transition[s, [s - 1, s - 2]] = 0.5
    transition[1, 0] = 1
    transition[0, 12 if restart else 0] = 1
    reward = np.full(13, -3.0)
    reward[[0, 1]] = 0, -2
    return MarkovRewardProcess(transition, reward, discount, initial=np.eye(13)[12])


def random_walk(
    n_states: int, discount: float, p_right: float = 0.5
) -> MarkovRewardProcess:
    """Random walk on a line with reflecting ends.

    A step goes right with probability ``p_right``, else left; a step over an end stays
    where it is. The reward is 1 in the last state, -1 in the first, 0 elsewhere. It is
    reversible, with :math:`\\mu(s) \\propto (p/(1-p))^s`, uniform at ``p = 1/2``.

    Parameters
    ----------
    n_states : int
        Number of states, at least 2.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    p_right : float
        ``p``, strictly between 0 and 1.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    n_states = checked_count("n_states", n_states, at_least=2)
    if not 0 < p_right < 1:
        raise ValueError(f"p_right: got {p_right}, expected 0 < p_right < 1")
    states = np.arange(n_states)
    transition = np.zeros((n_states, n_states))
    transition[states, np.minimum(states + 1, n_states - 1)] += p_right
    transition[states, np.maximum(states - 1, 0)] += 1 - p_right
    reward = np.zeros(n_states)
    reward[[0, -1]] = -1, 1
    return MarkovRewardProcess(transition, reward, discount)


def random_ergodic_chain(
    n_states: int,
    rng: np.random.Generator,
    discount: float,
    concentration: float = 1.0,
    mixing: float = 0.05,
) -> MarkovRewardProcess:
    """Random chain that may go from any state to any other.

    Rows are Dirichlet distributed, mixed with a uniform jump so that the chain is
    ergodic whatever was drawn: :math:`P = (1-\\varepsilon)\\,\\mathrm{Dir}(c) +
    \\varepsilon/|\\mathcal S|`. Rewards are :math:`r(s) \\sim U(-1, 1)`.

    Parameters
    ----------
    n_states : int
        Number of states, at least 1.
    rng : numpy.random.Generator
        Source of all randomness.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    concentration : float
        ``c > 0``. Small: nearly deterministic rows. Large: nearly uniform rows.
    mixing : float
        :math:`\\varepsilon`, more than 0 and at most 1.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    n_states = checked_count("n_states", n_states, at_least=1)
    discount = checked_discount(discount)  # before anything is drawn
    if not 0 < concentration < np.inf:
        raise ValueError(
            f"concentration: got {concentration}, expected a finite number > 0"
        )
    if not 0 < mixing <= 1:
        raise ValueError(f"mixing: got {mixing}, expected 0 < mixing <= 1")
    rows = rng.dirichlet(np.full(n_states, concentration), size=n_states)
    transition = (1 - mixing) * rows + mixing / n_states
    return MarkovRewardProcess(transition, rng.uniform(-1, 1, n_states), discount)
