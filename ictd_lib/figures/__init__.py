"""Figures that move: one mechanism for the whole book.

A figure is a script that draws (``js/``) and a Python function that hands it numbers and
controls. It computes in the reader's browser, and lives in two places from one source:

* in a **live notebook** it is an `anywidget`: each control is a trait, so
  ``figure.sharpness = 20`` moves the slider, and the slider changes ``figure.sharpness``;
* in a **static page** it is an HTML element with a still picture and the numbers; the site's
  script finds it and puts the figure in its place. Where no script runs, the picture stays.

Importing this package loads neither anywidget nor matplotlib. Making a figure does; both
come with ``pip install '.[run]'`` in the book's repository.
"""

from ictd_lib.figures.contraction import contraction_figure
from ictd_lib.figures.dual_head import dual_head_steps
from ictd_lib.figures.eigenvalues import eigenvalues_figure
from ictd_lib.figures.policy_evaluation import policy_evaluation_figure
from ictd_lib.figures.pretraining import pretraining_figure
from ictd_lib.figures.shift import shift_figure
from ictd_lib.figures.weighted_td import weighted_td_playground

__all__ = [
    "contraction_figure",
    "dual_head_steps",
    "eigenvalues_figure",
    "policy_evaluation_figure",
    "pretraining_figure",
    "shift_figure",
    "weighted_td_playground",
]
