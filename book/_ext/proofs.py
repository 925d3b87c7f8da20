"""Set the word "Proof." apart from the sentence that follows it.

sphinx-proof writes it into the first paragraph as plain text; here it becomes a
node of its own, so that the style sheet can make it look like a label.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_proof.nodes import proof_node

LABEL = "Proof."


def set_label_apart(app: Sphinx, doctree: nodes.document) -> None:
    """Wrap the label of every proof (Sphinx's event doctree-read)."""
    for proof in doctree.findall(proof_node):
        text = next(proof.findall(nodes.Text), None)
        if text is not None and text.startswith(LABEL):
            label = nodes.inline(LABEL, LABEL, classes=["proof-label"])
            text.parent.replace(text, [label, nodes.Text(text[len(LABEL) :])])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", set_label_apart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
