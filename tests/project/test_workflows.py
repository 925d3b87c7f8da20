"""GitHub's workflows: valid, pinned, and allowed no more than they need."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from book.tools.canonical import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
Check = Callable[[Path], list[str]]
each_workflow = pytest.mark.parametrize(
    "path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS]
)

USES = re.compile(r"^\s*(?:- )?uses: *(.*)$", re.MULTILINE)
PINNED = re.compile(r"[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
#: What may be written, by whom: everything else is read.
MAY_WRITE = {
    ("publish.yml", "deploy"): {"pages", "id-token"},
    ("weekly.yml", "report"): {"issues"},
}


def command(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment, and nothing of the user's own settings."""
    program = str(Path(sys.executable).with_name(name))
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )


def schema_faults(path: Path, schema: str) -> list[str]:
    done = command("check-jsonschema", "--builtin-schema", schema, path)
    return [] if done.returncode == 0 else [f"{schema}: {done.stdout}{done.stderr}"]


def zizmor_faults(path: Path) -> list[str]:
    """Return what zizmor, at its strictest, has to say; nothing is asked of the network."""
    config = ("--config", GITHUB / "zizmor.yml", "--persona", "auditor")
    options = ("--offline", "--quiet", *config, "--format", "json", "--no-exit-codes")
    done = command("zizmor", *options, "--strict-collection", path)
    assert done.returncode == 0, done.stderr
    return [f"{found['ident']}: {found['desc']}" for found in json.loads(done.stdout)]


def pin_faults(text: str) -> list[str]:
    """Return what is used under a name that its owner can point elsewhere."""
    used = [line.strip() for line in USES.findall(text)]
    return [
        f"not pinned: {line}"
        for line in used
        if not (PINNED.fullmatch(line) or line.startswith("./.github/"))
    ]


def job_faults(name: str, workflow: dict[Any, Any]) -> Iterator[str]:
    """Yield the jobs that may more than they need, or may run for hours."""
    if workflow.get("permissions") != {}:
        yield "the workflow as a whole has permissions"
    if "group" not in workflow.get("concurrency", {}):
        yield "no concurrency group"
    for job, what in workflow["jobs"].items():
        permissions = what.get("permissions")
        if not isinstance(permissions, dict):
            yield f"{job}: no permissions of its own"
            continue
        writes = {key for key, value in permissions.items() if value != "read"}
        if writes != MAY_WRITE.get((name, job), set()):
            yield f"{job}: may write {sorted(writes)}"
        if "uses" not in what and not 0 < what.get("timeout-minutes", 0) <= 180:
            yield f"{job}: no timeout"


def schema(path: Path) -> list[str]:
    return schema_faults(path, "vendor.github-workflows")


def pins(path: Path) -> list[str]:
    return pin_faults(path.read_text("utf-8"))


def jobs(path: Path) -> list[str]:
    return list(job_faults(path.name, yaml.safe_load(path.read_text("utf-8"))))


each_check = pytest.mark.parametrize("check", [schema, zizmor_faults, pins, jobs])


def test_there_are_the_three() -> None:
    assert [path.name for path in WORKFLOWS] == [
        "check.yml",
        "publish.yml",
        "weekly.yml",
    ]


@each_check
@each_workflow
def test_workflow_has_no_fault(path: Path, check: Check) -> None:
    assert check(path) == []


@pytest.mark.parametrize("path", ACTIONS, ids=[path.parent.name for path in ACTIONS])
def test_action_has_no_fault(path: Path) -> None:
    assert schema_faults(path, "vendor.github-actions") == []
    assert zizmor_faults(path) == []
    assert pin_faults(path.read_text("utf-8")) == []


def test_one_version_of_an_action_everywhere() -> None:
    used = {
        line.strip()
        for path in [*WORKFLOWS, *ACTIONS]
        for line in USES.findall(path.read_text("utf-8"))
    }
    names = [line.partition("@")[0] for line in used if "@" in line]
    assert len(names) == len(set(names))


def test_local_actions_and_workflows_exist() -> None:
    for path in [*WORKFLOWS, *ACTIONS]:
        for line in USES.findall(path.read_text("utf-8")):
            if line.startswith("./"):
                target = ROOT / line
                assert target.is_file() or (target / "action.yml").is_file(), line


INJECTION = 'echo "${{ github.event.pull_request.title }}"'
PIN = r"checkout@\w{40} # v6.0.2"
OWN_PERMISSIONS = r"    permissions:\n      contents: read.*\n"


@pytest.mark.parametrize(
    ("name", "edit", "check", "said"),
    [
        ("check", (r"runs-on: ubuntu-24.04", "runs_on: x"), schema, "runs_on"),
        ("check", (PIN, "checkout@v6"), pins, "not pinned"),
        ("check", (r"(checkout@\w{40}) # v6.0.2", r"\1"), pins, "not pinned"),
        ("check", (PIN, "checkout@v6"), zizmor_faults, "unpinned-uses"),
        ("check", (r"persist-credentials: .*", "a: b"), zizmor_faults, "artipacked"),
        ("check", (r"run: make book", f"run: {INJECTION}"), zizmor_faults, "template"),
        (
            "check",
            (r"pull_request:", "pull_request_target:"),
            zizmor_faults,
            "dangerous",
        ),
        ("check", (r"permissions: \{\}", "permissions: write-all"), jobs, "as a whole"),
        ("check", (r"contents: read .*", "contents: write"), jobs, "may write"),
        ("check", (OWN_PERMISSIONS, ""), jobs, "no permissions of its own"),
        ("check", (r"    timeout-minutes: 45\n", ""), jobs, "no timeout"),
        ("check", (r"concurrency:\n.*\n.*\n", ""), jobs, "no concurrency group"),
        ("publish", (r"pages: write .*", "contents: write"), jobs, "may write"),
        ("weekly", (r"issues: write .*", "pull-requests: write"), jobs, "may write"),
    ],
)
def test_planted_fault_is_seen(
    tmp_path: Path, name: str, edit: tuple[str, str], check: Check, said: str
) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    path = folder / f"{name}.yml"
    text = (GITHUB / "workflows" / path.name).read_text("utf-8")
    changed, count = re.subn(*edit, text, count=1)
    assert count == 1
    path.write_text(changed, "utf-8")
    faults = check(path)
    assert any(said in fault for fault in faults), faults


def scripts(path: Path) -> list[str]:
    """Return every shell script of a workflow, or an action."""
    content = yaml.safe_load(path.read_text("utf-8"))
    jobs = content.get("jobs", {"": content.get("runs", {})})
    return [
        step["run"]
        for job in jobs.values()
        for step in job.get("steps", [])
        if "run" in step
    ]


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS])
def test_scripts_parse_and_take_nothing_from_an_expression(path: Path) -> None:
    for script in scripts(path):
        assert "${{" not in script
        subprocess.run(["bash", "-n", "-c", script], check=True)


def test_scripts_call_only_what_is_there() -> None:
    targets = (ROOT / "Makefile").read_text("utf-8")
    every = "\n".join(s for path in [*WORKFLOWS, *ACTIONS] for s in scripts(path))
    called = re.findall(r"^make ([a-z-]+)", every, re.MULTILINE)
    assert sorted(called) == ["book", "links", "public"]
    for name in called:
        assert re.search(rf"^{name}:", targets, re.MULTILINE), name
    lock = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    for name in re.findall(r"grep '\^([\w-]+)==' requirements.lock", every):
        assert [line for line in lock if re.fullmatch(rf"{name}==[\d.]+", line)], name


@pytest.mark.parametrize(
    ("is_open", "asked_for"),
    [("", "issue create --title {title} --body"), ("17", "issue comment 17 --body")],
)
def test_the_report_opens_one_issue_and_adds_to_it(
    tmp_path: Path, is_open: str, asked_for: str
) -> None:
    """The script of weekly.yml, with a `gh` that writes down what it is asked."""
    asked = tmp_path / "asked"
    gh = tmp_path / "gh"
    gh.write_text(
        f'#!/bin/bash\nprintf "%s\\n" "$*" >>"{asked}"\n'
        f'if [ "$2" = list ]; then echo {is_open}; fi\n'
    )
    gh.chmod(0o755)
    (script,) = [s for s in scripts(GITHUB / "workflows" / "weekly.yml") if "gh " in s]
    title, body = "A title; $(false)", "What failed; $(false)"
    subprocess.run(
        ["bash", "-e", "-c", script],
        check=True,
        capture_output=True,
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "TITLE": title,
            "BODY": body,
        },
    )
    _, done = asked.read_text().splitlines()
    assert done == f"{asked_for.format(title=title)} {body}"


def test_the_report_tells_of_every_other_job() -> None:
    weekly = yaml.safe_load((GITHUB / "workflows" / "weekly.yml").read_text("utf-8"))
    report = weekly["jobs"].pop("report")
    assert report["needs"] == list(weekly["jobs"])
    for result in ("failure", "cancelled"):  # what a job without time left becomes
        assert f"contains(needs.*.result, '{result}')" in report["if"]
    (step,) = report["steps"]
    for job in weekly["jobs"]:
        assert f"${{{{ needs.{job}.result }}}}" in step["env"]["BODY"]


def test_only_main_is_published() -> None:
    publish = yaml.safe_load((GITHUB / "workflows" / "publish.yml").read_text("utf-8"))
    assert publish[True]["push"] == {"branches": ["main"]}  # YAML reads `on` as true
    deploy = publish["jobs"]["deploy"]
    assert deploy["if"] == "github.ref == 'refs/heads/main'"
    assert deploy["needs"] == ["check", "build"]


LOCKED = ["test", "test-grading", "binder-check"]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ([], LOCKED),
        # The newest torch too, which pyproject.toml would hold back.
        (["fresh"], ["lock, no config", "notebooks ALL=1", *LOCKED]),
    ],
)
def test_the_whole_check_goes_on_to_its_end(
    tmp_path: Path, how: list[str], asked: list[str], fails: bool
) -> None:
    """.ci/run where nothing is missing, with a `make` that writes down what it is asked."""
    said = tmp_path / "said"
    for name in ("make", "chromium", "bwrap", "git", "python3"):
        tool = tmp_path / name
        tool.write_text(
            "#!/bin/bash\n"
            f'echo "$*${{UV_NO_CONFIG:+, no config}}" >>"{said}"\n'
            f'[[ "$1" != test || {int(fails)} == 0 ]]\n'
            if name == "make"
            else "#!/bin/bash\n"
        )
        tool.chmod(0o755)
    done = subprocess.run(
        [ROOT / ".ci" / "run", *how],
        check=False,
        capture_output=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == int(fails)
    assert said.read_text().splitlines() == asked


@pytest.mark.parametrize(
    ("answer", "passes"), [("torch==1\n    # from https://x/cpu", True), ("", False)]
)
def test_the_address_of_torch_is_what_uv_says(
    tmp_path: Path, answer: str, passes: bool
) -> None:
    for name, says in (("python3", ""), ("uv", answer)):
        (tmp_path / name).write_text(f"#!/bin/bash\ncat <<'EOF'\n{says}\nEOF\n")
        (tmp_path / name).chmod(0o755)
    (script,) = scripts(GITHUB / "actions" / "prepare" / "action.yml")
    output = tmp_path / "output"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=ROOT,
        check=False,
        capture_output=True,
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(output),
        },
    )
    assert (done.returncode == 0) == passes
    if passes:
        assert output.read_text() == "index=https://x/cpu\n"
