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
* `ictd_lib.preconditioning`: attention as a preconditioner, and the weights it is reversible for
* `ictd_lib.convergence`: when a layer contracts without a dominant diagonal; attention sinks
* `ictd_lib.certificates`: which of those conditions holds on a context, with which rate
* `ictd_lib.divergence`, `ictd_lib.census`, `ictd_lib.adversary`: chains that diverge, how many, and a search
* `ictd_lib.acceleration`, `ictd_lib.momentum`: step sizes across layers, and a remembered velocity
* `ictd_lib.traces`, `ictd_lib.average_reward`, `ictd_lib.rewards`: other signals than TD(0)'s
* `ictd_lib.interval`: states on an interval, none of them seen twice
* `ictd_lib.pretraining`: training it by TD on random chains (needs torch)
* `ictd_lib.replication`: the same from many seeds, on Dask (needs distributed; its rows can be read without)
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
from ictd_lib.adversary import (
    Reached,
)
from ictd_lib.average_reward import (
    differential_td,
    poisson_solution,
    up_to_constant,
)
from ictd_lib.census import (
    Census,
    ChainStack,
    random_chains,
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
from ictd_lib.certificates import (
    Certificate,
    Condition,
    certificate,
    population_certificate,
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
    orthogonal_rate,
    paper_rate,
    sharp_rate,
)
from ictd_lib.convergence import (
    Spectrum,
    centred_radius,
    centred_rate,
    energy,
    kernel_spectrum,
    numerical_radius,
    predecessor_ratio,
    radius_rate,
    sharp_sink,
    sink_bound,
    spread_radius,
    universal_sink,
)
from ictd_lib.divergence import (
    drift_eigenvalues,
    equal_norms,
    unequal_norms,
    violation,
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
from ictd_lib.preconditioning import (
    key_weights,
    linear_preconditioner,
    log_normaliser,
    rescaled_steps,
    reversing_weights,
    sink_steps,
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
    "Census",
    "Certificate",
    "ChainStack",
    "Condition",
    "Context",
    "ContractionReport",
    "DivergenceError",
    "KernelDiagonality",
    "MarkovRewardProcess",
    "Reached",
    "Spectrum",
    "SupNorm",
    "asymptotic_bias",
    "asymptotic_covariance",
    "attention_matrix",
    "best_constant_step",
    "best_momentum",
    "best_polynomial",
    "boyan_chain",
    "boyan_features",
    "centred_radius",
    "centred_rate",
    "certainty_equivalence",
    "certificate",
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
    "drift_eigenvalues",
    "empirical_kernel",
    "energy",
    "equal_norms",
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
    "kernel_spectrum",
    "key_weights",
    "lambda_discount",
    "lambda_equations",
    "lambda_errors",
    "lambda_transition",
    "layer_offset",
    "layer_operator",
    "layers_to",
    "linear_preconditioner",
    "linear_td",
    "log_normaliser",
    "lstd",
    "lumped_context",
    "mean_td_errors",
    "momentum_matrix",
    "momentum_rate",
    "momentum_td",
    "noisy_covariance",
    "numerical_radius",
    "one_hot_features",
    "one_hot_sharpness",
    "orthogonal_rate",
    "paired_momenta",
    "paper_rate",
    "path_context",
    "poisson_solution",
    "population_certificate",
    "population_kernel",
    "predecessor_ratio",
    "radius_rate",
    "random_boyan_chain",
    "random_chains",
    "random_ergodic_chain",
    "random_walk",
    "reflecting_walk",
    "rescaled_steps",
    "residual_matrix",
    "residual_operator",
    "residual_polynomial",
    "reversing_weights",
    "sample_context",
    "sharp_rate",
    "sharp_sink",
    "similarity_scores",
    "sink_bound",
    "sink_steps",
    "softmax_weights",
    "span_contraction",
    "spectral_radius",
    "spread_radius",
    "stable_order",
    "stationary_distribution",
    "stochastic_matrix",
    "sufficient_trace",
    "tabular_td",
    "target_variance",
    "td_errors",
    "trace_weights",
    "transition_context",
    "unequal_norms",
    "unit_features",
    "universal_sink",
    "up_to_constant",
    "violation",
    "walk_values",
    "weighted_softmax_td",
    "weighted_td",
    "without_constants",
]
__version__ = "0.1.0"
