"""The same training many times over: from many seeds, and with one choice at a time made otherwise.

The modules are read in this order, and each depends only on those before it:

* `ictd_lib.replication.engine`: many calls of one function, on Dask
* `ictd_lib.replication.store`: rows, each put away at once, and columns
* `ictd_lib.replication.variants`: which recipes
* `ictd_lib.replication.rows`: one run as a row
* `ictd_lib.replication.study`: all of it

Only running a study needs Dask (``pip install '.[replicate]'``); reading what one found doesn't.
"""

from ictd_lib.replication.engine import EngineError, Failure
from ictd_lib.replication.rows import run_row, versions
from ictd_lib.replication.store import Spool, read_columns, stack, write_columns
from ictd_lib.replication.study import (
    ReplicationError,
    replicate,
    same_rows,
    summary,
)
from ictd_lib.replication.variants import LARGE, STUDIES, VARIANTS, Variant, chosen

__all__ = [
    "LARGE",
    "STUDIES",
    "VARIANTS",
    "EngineError",
    "Failure",
    "ReplicationError",
    "Spool",
    "Variant",
    "chosen",
    "read_columns",
    "replicate",
    "run_row",
    "same_rows",
    "stack",
    "summary",
    "versions",
    "write_columns",
]
