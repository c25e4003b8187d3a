"""A verdict for systems that run tests: GitHub's annotations, JUnit's XML, and plain text for both.

Sources: docs.github.com, "Workflow commands for GitHub Actions"; the JUnit schema that Jenkins and GitLab read
(testsuites, testsuite, testcase, failure, error).
"""

from __future__ import annotations

import io
import re
from pathlib import PurePath
from xml.etree import ElementTree

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import Frame, Job
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report import text as job_text
from mqs_dll.report.terminal import console
from mqs_dll.verdict.results import Certainty, Finding, Outcome, Verdict

_TITLES = {Outcome.PROVED: "MPI job is stuck for good", Outcome.SUSPECTED: "MPI job seems to be stuck"}
_COLUMNS = 120


def plain(job: Job, verdict: Verdict) -> str:
    """Return the report as `mqs job` prints it into a file."""
    written = io.StringIO()
    console(_COLUMNS, written).print(job_text.render(job, verdict))
    return written.getvalue()


def annotation(job: Job, verdict: Verdict, workspace: str = "") -> str:
    """Return the line that has GitHub show the verdict at the line of the program where the culprit is.

    Args:
        job: what was read.
        verdict: what it means.
        workspace: the folder that GitHub's paths are below; paths outside are left out.
    """
    properties = {"title": _TITLES.get(verdict.outcome, "MPI job")}
    frame = culprit(job, verdict)
    path = _below(frame.file, workspace) if frame and frame.file else ""
    if frame and path:
        properties = {"file": path, "line": str(frame.line or 1), **properties}
    given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    kind = "error" if verdict.outcome is Outcome.PROVED else "warning"
    outcome, _, what = visible(verdict.headline).partition(": ")
    return f"::{kind} {given}::{_escaped(what or outcome)}\n"


def junit(*judged: tuple[Job, Verdict]) -> bytes:
    """Return a test suite with one test for each job, which fails where that is stuck."""
    suites = ElementTree.Element("testsuites")
    facts = {"name": "mqs", "tests": str(len(judged)), "timestamp": max(job.taken for job, _ in judged)}
    suite = ElementTree.SubElement(suites, "testsuite", facts)
    kinds = [_case(suite, job, verdict) for job, verdict in judged]
    suite.attrib |= {f"{kind}s": str(kinds.count(kind)) for kind in ("failure", "error")}
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def _case(suite: ElementTree.Element, job: Job, verdict: Verdict) -> str:
    """Add the test of a job to a suite; return how it ends: "failure", "error", or empty where it passes."""
    kinds = {Outcome.PROVED: "failure", Outcome.SUSPECTED: "failure", Outcome.NOT_READ: "error"}
    kind = kinds.get(verdict.outcome, "")
    case = ElementTree.SubElement(suite, "testcase", classname="mqs.job", name=_xml(visible(job.title)))
    if kind:
        leading = _leading(verdict)
        cause = leading.cause.value if leading else verdict.outcome.name.lower()
        message = _xml(visible(verdict.headline))
        ElementTree.SubElement(case, kind, message=message, type=cause).text = _xml(plain(job, verdict))
    return kind


def culprit(job: Job, verdict: Verdict) -> Frame | None:
    """Return where in the program the first rank is that the first finding is about; None where that isn't known."""
    leading = _leading(verdict)
    for index in leading.processes if leading else ():
        stacks = job.processes[index].samples[-1].stacks if job.processes[index].samples else ()
        for stack in () if isinstance(stacks, Hidden) else stacks:
            frame = stack.of_program
            if stack.call is not None and frame is not None and frame.file:
                return frame
    return None


def _leading(verdict: Verdict) -> Finding | None:
    certain = Certainty.PROVED if verdict.outcome is Outcome.PROVED else Certainty.SUSPECTED
    return next((each for each in verdict.findings if each.certainty is certain), None)


def _below(path: str, workspace: str) -> str:
    """Return a path as it is below a folder; empty where it isn't. A compiler may have been given a relative one."""
    pure = PurePath(path)
    if not pure.is_absolute():
        return path if ".." not in pure.parts else ""
    return str(pure.relative_to(workspace)) if workspace and pure.is_relative_to(workspace) else ""


def _escaped(value: str, more: str = "") -> str:
    """Return a text in which nothing ends a command of GitHub's, or begins another one."""
    return "".join(f"%{ord(each):02X}" if each in "%\r\n" + more else each for each in value)


def _xml(value: str) -> str:
    """Return a text without the characters that XML 1.0 has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", value)
