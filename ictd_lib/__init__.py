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
* `ictd_lib.acceleration`, `ictd_lib.momentum`: step sizes across layers, and a remembered velocity
* `ictd_lib.traces`, `ictd_lib.average_reward`, `ictd_lib.rewards`: other signals than TD(0)'s
* `ictd_lib.interval`: states on an interval, none of them seen twice
* `ictd_lib.pictures`, `ictd_lib.figures`: how the book draws, and its figures that move
"""

from ictd_lib.acceleration import (
    best_constant_step,
    best_polynomial,
    chebyshev_factor,
    chebyshev_step_sizes,
    deflated_schedule,
    fewest_layers,
    layers_to,
    residual_matrix,
    residual_polynomial,
    span_contraction,
    stable_order,
    without_constants,
)
from ictd_lib.average_reward import (
    differential_td,
    poisson_solution,
    up_to_constant,
)
from ictd_lib.certainty import (
    SupNorm,
    asymptotic_bias,
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
from ictd_lib.interval import (
    cosine_reward,
    path_context,
    reflecting_walk,
    walk_values,
)
from ictd_lib.kernel import (
    attention_matrix,
    context_kernel,
    gaussian_scores,
    inner_product_scores,
    similarity_scores,
    softmax_weights,
)
from ictd_lib.momentum import (
    best_momentum,
    momentum_matrix,
    momentum_rate,
    momentum_td,
    paired_momenta,
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
from ictd_lib.rewards import (
    noisy_covariance,
    target_variance,
    transition_context,
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
from ictd_lib.traces import (
    lambda_discount,
    lambda_equations,
    lambda_errors,
    lambda_transition,
    sufficient_trace,
    trace_weights,
)

__all__ = [
    "Context",
    "ContractionReport",
    "DivergenceError",
    "KernelDiagonality",
    "MarkovRewardProcess",
    "SupNorm",
    "asymptotic_bias",
    "asymptotic_covariance",
    "attention_matrix",
    "best_constant_step",
    "best_momentum",
    "best_polynomial",
    "boyan_chain",
    "boyan_features",
    "certainty_equivalence",
    "chebyshev_factor",
    "chebyshev_step_sizes",
    "closed_classes",
    "confidence_band",
    "context_kernel",
    "contraction_report",
    "cosine_reward",
    "deflated_schedule",
    "diagonality_margin",
    "differential_td",
    "empirical_kernel",
    "exact_margin",
    "expected_sup_norm",
    "feature_classes",
    "fewest_layers",
    "floor_bound",
    "gaussian_features",
    "gaussian_scores",
    "infinity_norm",
    "inner_product_scores",
    "kept_margin",
    "kernel_diagonality",
    "kernel_smoothed_td",
    "lambda_discount",
    "lambda_equations",
    "lambda_errors",
    "lambda_transition",
    "layer_offset",
    "layer_operator",
    "layers_to",
    "linear_td",
    "lstd",
    "lumped_context",
    "mean_td_errors",
    "momentum_matrix",
    "momentum_rate",
    "momentum_td",
    "noisy_covariance",
    "one_hot_features",
    "one_hot_sharpness",
    "paired_momenta",
    "paper_rate",
    "path_context",
    "poisson_solution",
    "population_kernel",
    "random_boyan_chain",
    "random_ergodic_chain",
    "random_walk",
    "reflecting_walk",
    "residual_matrix",
    "residual_operator",
    "residual_polynomial",
    "sample_context",
    "sharp_rate",
    "similarity_scores",
    "softmax_weights",
    "span_contraction",
    "spectral_radius",
    "stable_order",
    "stationary_distribution",
    "stochastic_matrix",
    "sufficient_trace",
    "tabular_td",
    "target_variance",
    "td_errors",
    "trace_weights",
    "transition_context",
    "unit_features",
    "up_to_constant",
    "walk_values",
    "weighted_softmax_td",
    "weighted_td",
    "without_constants",
]
__version__ = "0.1.0"
