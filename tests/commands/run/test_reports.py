"""What `mqs run` keeps of jobs: whose is which file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqs_dll.commands.run import reports

PID = 99


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "99"),
        ({"SLURM_JOB_ID": "12"}, "12-99"),
        ({"SLURM_JOB_ID": "15", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "0"}, "12-0-99"),
        ({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2"}, "12-restart2-99"),
        ({"PBS_JOBID": "12.server.site.org"}, "12-99"),
        ({"PBS_JOBID": "12[3].server"}, "12-3-99"),
        ({"LSB_JOBID": "12", "LSB_JOBINDEX": "3"}, "12-3-99"),
        ({"LSB_JOBID": "12", "LSB_JOBINDEX": "0"}, "12-99"),
        ({"LSB_JOBID": "12"}, "12-99"),
        ({"FLUX_JOB_ID": "ƒM7Zq9AKHno"}, "fM7Zq9AKHno-99"),
        ({"JOB_ID": "12", "SGE_TASK_ID": "undefined"}, "12-99"),
        ({"JOB_ID": "12", "SGE_TASK_ID": "3"}, "12-3-99"),
        ({"JOB_ID": "anything's"}, "99"),
        ({"SLURM_JOB_ID": "é/x y"}, "x-y-99"),
    ],
    ids=str,
)
def test_files_are_named_as_the_batch_system_calls_the_job(
    environment: dict[str, str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the index of an array's task, and how often it was queued; in letters that every file system takes."""
    for variable in {each for names in reports._JOB_IDS for each in names} | {"SLURM_RESTART_COUNT"}:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    job = tmp_path / "job"
    job.touch()
    reports.Reports(tmp_path / "folder").keep(PID, job, 2)
    assert [each.name for each in (tmp_path / "folder").iterdir()] == [f"mqs-run-{name}-last-1.json.gz"]


def test_of_each_job_the_last_few_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Until the command ends well."""
    monkeypatch.setattr(reports, "_JOB_IDS", ())
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    job = tmp_path / "job"
    job.touch()
    kept = reports.Reports(tmp_path)
    for pid in (10, 11, 10, 10):
        kept.keep(pid, job, 2)
    names = ["10-last-1", "10-last-2", "11-last-1"]
    assert sorted(each.name for each in tmp_path.glob("*.gz")) == [f"mqs-run-{name}.json.gz" for name in names]
    kept.forget()
    assert [*tmp_path.iterdir()] == [job]
