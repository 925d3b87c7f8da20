"""What holds for every test: repeatable random cases, and no silent skip where none is allowed."""

import os
from collections.abc import Generator

import hypothesis
import pytest

# The same examples every time: a red run can be run again. HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, print_blob=True
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def skips_are_forbidden() -> bool:
    """Where the suite must be complete (.ci/run), a test that can't run has failed."""
    return os.environ.get("ICTD_FORBID_SKIPS", "") not in {"", "0"}


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and skips_are_forbidden():
        reason = (
            report.longrepr[2]
            if isinstance(report.longrepr, tuple)
            else report.longrepr
        )
        report.outcome = "failed"
        report.longrepr = f"skipped, and ICTD_FORBID_SKIPS is set: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[
    None, pytest.CollectReport, pytest.CollectReport
]:
    report = yield
    _fail_if_skipped(report)
    return report
