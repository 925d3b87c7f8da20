"""What `from checks import ...` means here: the students' package, not the helper of the site's tests."""

import sys

from book.tools.assignments.source import NOTEBOOKS

sys.path.insert(0, str(NOTEBOOKS))
