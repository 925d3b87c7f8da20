"""The settings under which notebooks are executed are heeded, by each library that chooses code by the processor."""

import os
import subprocess
import sys

import pytest

from book.tools.notebooks import any_processor

SAYS = """
import numpy, torch
print("numpy:", numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
print("torch:", torch.backends.cpu.get_cpu_capability())
a = torch.rand(64, 64)
a @ a
"""


@pytest.mark.skipif(not any_processor(), reason="there are none for this processor")
def test_libraries_compute_as_every_processor_can() -> None:
    aloud = {"OPENBLAS_VERBOSE": "2", "MKL_VERBOSE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SAYS],
        env=os.environ | any_processor() | aloud,
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout + done.stderr
    assert "numpy: []" in said
    assert "torch: DEFAULT" in said
    assert "Core: Nehalem" in said
    assert "CNR:COMPATIBLE" in said
