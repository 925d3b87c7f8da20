"""The Transformer whose layers are iterations of weighted softmax TD.

It needs torch, which `import ictd_lib` does not load. The modules are read in this order,
and each depends only on those before it:

* `ictd_lib.transformer.prompt`: the matrix that a context is written into, and read from
* `ictd_lib.transformer.matrices`: the paper's matrices, literally
* `ictd_lib.transformer.attention`: one head of softmax attention
* `ictd_lib.transformer.blocks`: two heads, or one head and a temporal shift
* `ictd_lib.transformer.model`: layers of them, and the parameters that run TD
* `ictd_lib.transformer.fast`: the same function, with attention computed once or fused
* `ictd_lib.transformer.collapse`: the same function on states instead of tokens
* `ictd_lib.transformer.linear`: the linear-attention Transformer, which runs linear TD
* `ictd_lib.transformer.cost`: operations and bytes of each form, counted

Nothing here calls `ictd_lib.td`: the algorithm in numpy and the Transformer in torch are
two independent roads to the same numbers.
"""

from ictd_lib.transformer.attention import attention_head, attention_weights
from ictd_lib.transformer.blocks import DualHeadBlock, ShiftBlock, temporal_shift
from ictd_lib.transformer.collapse import (
    Summary,
    affine_layer,
    collapsed,
    collapsed_power,
    summarise,
    summarise_context,
)
from ictd_lib.transformer.cost import Cost, Step, count_cost
from ictd_lib.transformer.fast import cached, fused
from ictd_lib.transformer.linear import (
    LinearTDTransformer,
    linear_prompt,
    linear_theta_star,
)
from ictd_lib.transformer.matrices import (
    keep_matrix,
    mask_matrix,
    score_matrix,
    shift_matrix,
    target_matrix,
    value_matrix,
)
from ictd_lib.transformer.model import SoftmaxTDTransformer, theta_star
from ictd_lib.transformer.prompt import (
    MEMORY_ROWS,
    PromptRows,
    assemble_prompt,
    build_prompt,
    read_values,
)

__all__ = [
    "MEMORY_ROWS",
    "Cost",
    "DualHeadBlock",
    "LinearTDTransformer",
    "PromptRows",
    "ShiftBlock",
    "SoftmaxTDTransformer",
    "Step",
    "Summary",
    "affine_layer",
    "assemble_prompt",
    "attention_head",
    "attention_weights",
    "build_prompt",
    "cached",
    "collapsed",
    "collapsed_power",
    "count_cost",
    "fused",
    "keep_matrix",
    "linear_prompt",
    "linear_theta_star",
    "mask_matrix",
    "read_values",
    "score_matrix",
    "shift_matrix",
    "summarise",
    "summarise_context",
    "target_matrix",
    "temporal_shift",
    "theta_star",
    "value_matrix",
]
