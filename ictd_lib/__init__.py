"""Attention as temporal-difference learning: the library under the book.

The modules are read in this order, and each depends only on those before it:

* `ictd_lib.checks`: what arguments must be
* `ictd_lib.chain`: Markov reward processes, their values and stationary distributions
* `ictd_lib.families`: random and classical chains
* `ictd_lib.context`: a trajectory, and what it says about the chain
* `ictd_lib.features`: what the learner sees of a state
* `ictd_lib.kernel`: scores and softmax weights, or who updates whom
* `ictd_lib.td`: weighted softmax TD, and the special cases of it
* `ictd_lib.operators`: a layer as an affine map of all values
* `ictd_lib.certainty`: what depth converges to, and how far that is from the truth
* `ictd_lib.contraction`: whether depth converges, and how fast
* `ictd_lib.transformer`: the Transformer that runs it (needs torch, and isn't loaded here)
* `ictd_lib.pictures`, `ictd_lib.figures`: how the book draws, and its figures that move
"""

from ictd_lib.certainty import (
    SupNorm,
    asymptotic_covariance,
    certainty_equivalence,
    confidence_band,
    expected_sup_norm,
    feature_classes,
    lumped_context,
    mean_td_errors,
)
from ictd_lib.chain import (
    MarkovRewardProcess,
    closed_classes,
    stationary_distribution,
    stochastic_matrix,
)
from ictd_lib.context import Context, sample_context
from ictd_lib.contraction import (
    ContractionReport,
    KernelDiagonality,
    contraction_report,
    diagonality_margin,
    exact_margin,
    floor_bound,
    kept_margin,
    kernel_diagonality,
    one_hot_sharpness,
    paper_rate,
    sharp_rate,
)
from ictd_lib.families import (
    boyan_chain,
    random_boyan_chain,
    random_ergodic_chain,
    random_walk,
)
from ictd_lib.features import (
    boyan_features,
    gaussian_features,
    one_hot_features,
    unit_features,
)
from ictd_lib.kernel import (
    attention_matrix,
    context_kernel,
    gaussian_scores,
    inner_product_scores,
    similarity_scores,
    softmax_weights,
)
from ictd_lib.operators import (
    empirical_kernel,
    infinity_norm,
    layer_offset,
    layer_operator,
    population_kernel,
    residual_operator,
    spectral_radius,
)
from ictd_lib.td import (
    DivergenceError,
    kernel_smoothed_td,
    linear_td,
    lstd,
    tabular_td,
    td_errors,
    weighted_softmax_td,
    weighted_td,
)

__all__ = [
    "Context",
    "ContractionReport",
    "DivergenceError",
    "KernelDiagonality",
    "MarkovRewardProcess",
    "SupNorm",
    "asymptotic_covariance",
    "attention_matrix",
    "boyan_chain",
    "boyan_features",
    "certainty_equivalence",
    "closed_classes",
    "confidence_band",
    "context_kernel",
    "contraction_report",
    "diagonality_margin",
    "empirical_kernel",
    "exact_margin",
    "expected_sup_norm",
    "feature_classes",
    "floor_bound",
    "gaussian_features",
    "gaussian_scores",
    "infinity_norm",
    "inner_product_scores",
    "kept_margin",
    "kernel_diagonality",
    "kernel_smoothed_td",
    "layer_offset",
    "layer_operator",
    "linear_td",
    "lstd",
    "lumped_context",
    "mean_td_errors",
    "one_hot_features",
    "one_hot_sharpness",
    "paper_rate",
    "population_kernel",
    "random_boyan_chain",
    "random_ergodic_chain",
    "random_walk",
    "residual_operator",
    "sample_context",
    "sharp_rate",
    "similarity_scores",
    "softmax_weights",
    "spectral_radius",
    "stationary_distribution",
    "stochastic_matrix",
    "tabular_td",
    "td_errors",
    "unit_features",
    "weighted_softmax_td",
    "weighted_td",
]
__version__ = "0.1.0"
