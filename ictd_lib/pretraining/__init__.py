"""Reinforcement pretraining: where the parameters of the Transformer come from.

A model is trained by TD on random chains, from random parameters, and finds the construction.
It needs torch, which `import ictd_lib` does not load. The modules are read in this order, and
each depends only on those before it:

* `ictd_lib.pretraining.tasks`: chains, features and contexts, a batch at a time
* `ictd_lib.pretraining.forward`: values of every state, on states or on tokens
* `ictd_lib.pretraining.objectives`: TD, the norm of its expected update, regression
* `ictd_lib.pretraining.measures`: how far a model has come
* `ictd_lib.pretraining.first_force`: the expected update near zero, in closed form
* `ictd_lib.pretraining.recipe`: all that decides a run, but for its seed
* `ictd_lib.pretraining.checkpoint`: files that are whole or not there
* `ictd_lib.pretraining.train`: the run
"""

from ictd_lib.pretraining.first_force import (
    Force,
    first_force,
    first_multiple,
    self_attention,
    self_attention_gradient,
)
from ictd_lib.pretraining.forward import (
    LinearAttention,
    UnmaskedTransformer,
    collapsed_values,
    free_parameters,
    literal_values,
    share_outside,
    state_values,
)
from ictd_lib.pretraining.measures import (
    Exam,
    constructed_like,
    diagonalities,
    distances,
    equivalent,
    identity_part,
    kernels,
    measure,
    one_hot_identity_part,
    one_hot_part,
    relative_errors,
    set_exam,
)
from ictd_lib.pretraining.objectives import (
    expected_errors,
    expected_update,
    neu,
    neu_loss,
    regression_loss,
    squared_neu,
    td_loss,
)
from ictd_lib.pretraining.recipe import STANDARD, Recipe, stream
from ictd_lib.pretraining.tasks import (
    Batch,
    Chains,
    boyan_chains,
    chains_of,
    count_states,
    draw_batch,
    draw_chains,
    draw_features,
    ergodic_chains,
    population,
    walk,
    walk_chains,
)
from ictd_lib.pretraining.train import (
    PretrainingDivergedError,
    Run,
    draw_block,
    draw_exam,
    draw_pools,
    initial_model,
    load_run,
    objective,
    resume,
    train,
)

__all__ = [
    "STANDARD",
    "Batch",
    "Chains",
    "Exam",
    "Force",
    "LinearAttention",
    "PretrainingDivergedError",
    "Recipe",
    "Run",
    "UnmaskedTransformer",
    "boyan_chains",
    "chains_of",
    "collapsed_values",
    "constructed_like",
    "count_states",
    "diagonalities",
    "distances",
    "draw_batch",
    "draw_block",
    "draw_chains",
    "draw_exam",
    "draw_features",
    "draw_pools",
    "equivalent",
    "ergodic_chains",
    "expected_errors",
    "expected_update",
    "first_force",
    "first_multiple",
    "free_parameters",
    "identity_part",
    "initial_model",
    "kernels",
    "literal_values",
    "load_run",
    "measure",
    "neu",
    "neu_loss",
    "objective",
    "one_hot_identity_part",
    "one_hot_part",
    "population",
    "regression_loss",
    "relative_errors",
    "resume",
    "self_attention",
    "self_attention_gradient",
    "set_exam",
    "share_outside",
    "squared_neu",
    "state_values",
    "stream",
    "td_loss",
    "train",
    "walk",
    "walk_chains",
]
