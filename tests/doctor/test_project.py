"""The project's files, what git has of them, DVC's cache and remote."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from looks import only, states

from pipeline.doctor.findings import Check, Context, Finding, examine
from pipeline.doctor.project import check_cache, check_files, check_git, check_remote
from sightword.messages import without_credentials


def test_a_clean_project(project) -> None:
    assert states(project.check(check_files)) == {"ok"}
    assert states(project.check(check_git)) == {"ok"}


@pytest.mark.parametrize("name", ["params.yaml", "dvc.yaml", "dvc.lock"])
@pytest.mark.parametrize("text", ["a: [", "\xff", "", "- 1\n"])
def test_whatever_stands_in_a_file_is_a_problem_without_a_traceback(project, name, text) -> None:
    (project.folder / name).write_bytes(text.encode("latin-1"))
    found = project.check(check_files)
    if name == "dvc.lock" and not text:
        return  # a lock without stages
    assert "could not be checked" not in only(found, "problem").what, found
    assert name in only(found, "problem").what
    # And the other checks see a project without them.
    context = Context(project.folder, project.folder)
    assert context.section("train") is None or name != "params.yaml"
    assert context.has_run("train") in (True, False)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_lock_however_damaged_stops_the_checks(project, repository, data) -> None:
    """Pieces are cut out of it, doubled and exchanged, line by line."""
    lines = (repository / "dvc.lock").read_text().splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        start, end, place = (data.draw(st.integers(0, len(lines))) for _ in range(3))
        piece = lines[start:end]
        lines[place:place] = data.draw(st.sampled_from([piece, [], ["  - 1\n"], ["\tx: y\n"], ["a: &b [*b]\n"]]))
    (project.folder / "dvc.lock").write_text("".join(lines))
    context = Context(project.folder, project.folder)
    assert context.has_run("train") in (True, False)
    assert all("could not be checked" not in one.what for one in project.check(check_files))


def test_files_that_are_missing(project) -> None:
    (project.folder / "params.yaml").unlink()
    (project.folder / "dvc.lock").unlink()
    found = project.check(check_files)
    assert "params.yaml" in only(found, "problem").what
    assert any("nothing has run" in one.what for one in found if one.state == "ok")


def test_file_with_the_name_of_a_module_is_a_warning(project) -> None:
    for name in ("select.py", "numpy.py", "mine.py"):
        (project.folder / name).touch()
    assert "load numpy.py, select.py in place of" in only(project.check(check_files), "warning").what


def test_uncommitted_changes_are_named(project) -> None:
    project.edit("params.yaml", "seed: 0", "seed: 1")
    (project.folder / "stages").mkdir()
    (project.folder / "stages/new.py").write_text("")
    (project.folder / "notes.txt").write_text("no matter")
    (project.folder / "data/raw/mine").mkdir()
    (project.folder / "data/raw/mine/a.jpg").write_text("no matter either")
    found = only(project.check(check_git), "warning")
    assert "params.yaml, stages/new.py" in found.what
    assert "notes" not in found.what
    assert "a.jpg" not in found.what


def test_an_unfinished_merge(project) -> None:
    project.git("switch", "-qc", "other")
    project.edit("params.yaml", "seed: 0", "seed: 1")
    project.git("commit", "-qam", "one")
    project.git("switch", "-q", "main")
    project.edit("params.yaml", "seed: 0", "seed: 2")
    project.git("commit", "-qam", "two")
    with pytest.raises(subprocess.CalledProcessError):
        project.git("merge", "other")
    assert "params.yaml" in only(project.check(check_git), "problem").what


def test_git_that_hides_or_changes_results_is_a_warning(project, tmp_path: Path) -> None:
    project.git("commit", "-q", "--allow-empty", "-m", "second")
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{project.folder}", str(shallow)], check=True)
    project.folder = shallow
    assert "shallow" in only(project.check(check_git), "warning").what
    project.git("fetch", "-q", "--unshallow")
    assert states(project.check(check_git)) == {"ok"}
    project.git("switch", "-q", "--detach")
    assert "detached" in only(project.check(check_git), "warning").what
    project.git("switch", "-q", "main")
    project.git("config", "core.autocrlf", "true")
    assert "core.autocrlf" in only(project.check(check_git), "warning").what


def test_without_git_without_a_repository_and_without_a_commit(project, tmp_path: Path, monkeypatch) -> None:
    project.folder = tmp_path / "fresh"
    project.folder.mkdir()
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("LANGUAGE", "tr")  # git's own messages, where its translations are installed
    assert "not a git repository" in only(project.check(check_git), "warning").what
    project.git("init", "-q")
    found = only(project.check(check_git), "warning")
    assert "results cannot be traced: git log: your current branch" in found.what
    assert "git commit" in found.todo
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git cannot be run" in only(project.check(check_git), "warning").what


@pytest.fixture
def lab(project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A project that DVC knows, without stages."""
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    (project.folder / "dvc.yaml").write_text("stages: {}\n")
    (project.folder / "dvc.lock").unlink()
    (project.folder / ".dvc/config").write_text("[core]\n    analytics = false\n")
    return project


def configure(project, url: str, *, name: str = "config") -> None:
    text = f"[core]\n    remote = lab\n['remote \"lab\"']\n    url = {url}\n"
    (project.folder / ".dvc" / name).write_text(text)


def ask(project) -> list[Finding]:
    return list(examine([Check("remote", check_remote)], Context(project.folder, project.folder)))


def test_shared_cache_needs_its_bits(project, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    project.facts["dvc"] = {"cache": str(cache), "shared": True}
    assert states(project.check(check_cache)) == {"ok"}  # not made yet
    cache.mkdir()
    cache.chmod(0o755)
    assert "write or setgid" in only(project.check(check_cache), "warning").what
    cache.chmod(0o2775)
    assert states(project.check(check_cache)) == {"ok"}


def test_no_remote_is_a_warning_once_there_are_results(lab) -> None:
    assert only(ask(lab), "ok").what == "no remote, and no results yet"
    (lab.folder / "dvc.lock").touch()
    assert "no remote: results stay" in only(ask(lab), "warning").what


def test_a_folder_that_exists_or_not(lab, tmp_path: Path) -> None:
    configure(lab, str(tmp_path / "remote"))
    assert "does not exist" in only(ask(lab), "warning").what
    (tmp_path / "remote").mkdir()
    assert "answers, and has all outputs" in only(ask(lab), "ok").what
    configure(lab, "/proc/1/nothing")
    assert "cannot be written to" in only(ask(lab), "problem").what


REMOTE = {"remotes": {"lab": "s3://bucket/x"}, "remote": "lab"}
ANSWER = {"answers": True, "lacks": [], "gone": []}


@pytest.mark.parametrize(
    ("facts", "state", "word", "todo"),
    [
        (ANSWER, "ok", "answers, and has all outputs", ""),
        ({"remote": "other"}, "problem", "none of the configured", "dvc remote default"),
        ({"remote": None}, "warning", "none of the configured", "dvc remote default"),
        ({"writable": False}, "problem", "cannot be written to", "permission"),
        ({**ANSWER, "lacks": ["a", "b"], "gone": ["c"]}, "warning", "lacks a, b", "`dvc push`."),
        ({**ANSWER, "lacks": ["a", "b"], "gone": ["b"]}, "warning", "lacks a, b", "`dvc repro` (or raw data in its"),
        ({"remote_error": "NoCredentialsError: x"}, "problem", "NoCredentials", "credentials"),
        ({"remote_error": "RemoteMissingDepsError: x"}, "problem", "MissingDeps", "pip install"),
        ({"late": True}, "problem", "no answer within", "VPN"),
        ({"failed": "Killed"}, "problem", "Killed", "VPN"),
    ],
)
def test_findings_by_the_facts_of_dvc(project, facts, state, word, todo) -> None:
    project.facts["dvc"] = {**REMOTE, **facts}
    found = only(project.check(check_remote), state)
    assert word in found.what
    assert todo in found.todo


def test_a_dead_remote_is_reported_without_credentials(lab) -> None:
    configure(lab, "http://me:hunter2@127.0.0.1:9/lab", name="config.local")
    found = only(ask(lab), "problem")
    assert "cannot be reached" in found.what
    assert "127.0.0.1" in found.what
    assert "hunter2" not in str(found)


def test_addresses_are_shown_without_credentials(monkeypatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "refused by")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    assert without_credentials("no hf_abcdefgh") == "no ***"
    text = "refused by http://me:pass@host/x?sig=abc and s3://KEY:word@bucket"
    assert without_credentials(text) == "refused by http://***@host/x?*** and s3://***@bucket"


OID = "d41d8cd98f00b204e9800998ecf8427e"


def track(lab) -> None:
    (lab.folder / "raw.dvc").write_text(f"outs:\n- md5: {OID}\n  size: 0\n  hash: md5\n  path: raw\n")


@pytest.mark.slow
def test_outputs_that_were_not_pushed(lab, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    configure(lab, str(tmp_path / "remote"))
    track(lab)
    assert "raw data in its place) for raw, which the cache lacks" in only(ask(lab), "warning").todo
    cached = lab.folder / ".dvc/cache/files/md5" / OID[:2] / OID[2:]
    cached.parent.mkdir(parents=True)
    cached.write_text("")
    found = only(ask(lab), "warning")
    assert (found.todo, "lacks raw" in found.what) == ("`dvc push`.", True)
    shutil.copytree(lab.folder / ".dvc/cache", tmp_path / "remote", dirs_exist_ok=True)
    assert states(ask(lab)) == {"ok"}


@pytest.mark.parametrize(
    ("remote", "outer", "file", "readers", "umask"),
    [
        (0o2770, 0o700, 0o400, "g", "007"),
        (0o2770, 0o2770, 0o600, "g", "007"),  # folders that the lab made, and a file of somebody with umask 077
        (0o755, 0o750, 0o640, "go", "022"),
        (0o700, 0o700, 0o600, "", ""),  # nobody else may read the remote at all
    ],
)
def test_files_closed_to_colleagues_are_named_with_owner_and_remedy(
    lab, tmp_path, remote, outer, file, readers, umask
) -> None:
    folder, owner = tmp_path / "remote", pwd.getpwuid(os.geteuid()).pw_name
    configure(lab, str(folder))
    track(lab)
    kept = folder / "files/md5" / OID[:2] / OID[2:]
    kept.parent.mkdir(parents=True)
    kept.write_text("")
    kept.chmod(file)
    for path, mode in zip(
        (kept.parent, folder / "files/md5", folder / "files", folder), (outer, outer, remote, remote), strict=True
    ):
        path.chmod(mode)
    found = ask(lab)
    if not readers:
        assert states(found) == {"ok"}
        return
    named = kept if outer == remote else folder / "files/md5"
    assert only(found, "warning").what.endswith(f"what {owner} pushed, and would compute it again: {named}")
    command = f"find {folder} -user {owner} -exec chmod {readers}+rX {{}} +"
    assert found[0].todo == f"{owner} runs `{command}` once, and `umask {umask}` before each `dvc push`."
    subprocess.run(shlex.split(command), check=True)
    assert states(ask(lab)) == {"ok"}


@pytest.mark.parametrize(
    ("config", "site", "todo"), [("[core\n", "site", "config"), ("", "/proc/no", "SITE_CACHE_DIR")]
)
def test_a_broken_configuration_and_an_unwritable_site_cache(lab, tmp_path, monkeypatch, config, site, todo) -> None:
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / site))
    (lab.folder / ".dvc/config").write_text(config)
    context = Context(lab.folder, lab.folder)
    found = list(examine([Check("cache", check_cache), Check("remote", check_remote)], context))
    assert "DVC cannot work here" in only(found, "problem").what
    assert todo in only(found, "problem").todo
