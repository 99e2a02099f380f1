"""DVC, its cache and its remote."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import context as module
from pipeline.doctor import probes
from pipeline.doctor.context import Context
from pipeline.doctor.findings import Check, Finding, examine
from pipeline.doctor.remote import check_cache, check_remote


@pytest.fixture
def lab(project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A project that DVC knows, without stages."""
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    (project.folder / "dvc.yaml").write_text("stages: {}\n")
    (project.folder / "dvc.lock").unlink()
    (project.folder / ".dvc/config").write_text("[core]\n    analytics = false\n")
    return project


def configure(project, url: str, *, name: str = "config", **more: str) -> None:
    lines = [
        "[core]",
        "    remote = lab",
        "['remote \"lab\"']",
        f"    url = {url}",
        *(f"    {k} = {v}" for k, v in more.items()),
    ]
    (project.folder / ".dvc" / name).write_text("\n".join(lines) + "\n")


def ask(project, *, quick: bool = False) -> list[Finding]:
    with Context(project.folder, project.folder, quick=quick, facts={"torch": {}}) as context:
        return list(examine([Check("remote", check_remote)], context))


def shared(cache: Path, *, group: bool = False) -> dict[str, object]:
    return {"cache": str(cache), "shared": group}


def test_a_shared_cache_without_its_bits_and_an_outside_cache_that_is_not_shared(
    project, tmp_path: Path, monkeypatch
) -> None:
    cache = tmp_path / "cache"
    project.facts["dvc"] = shared(cache)
    assert "still empty" in only(project.check(check_cache), "ok").what
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    project.facts["dvc"] = shared(cache, group=True)
    assert "write and setgid" in only(project.check(check_cache), "warning").what
    cache.chmod(0o2775)
    assert states(project.check(check_cache)) == {"ok"}
    project.facts["dvc"] = shared(cache)
    monkeypatch.setenv("HOME", str(project.folder))
    assert "outside the project" in only(project.check(check_cache), "warning").what
    monkeypatch.setenv("HOME", str(tmp_path))
    assert states(project.check(check_cache)) == {"ok"}


def test_dvc_that_cannot_work(project) -> None:
    project.facts["dvc"] = {"error": "configuration error"}
    assert "configuration error" in only(project.check(check_cache), "problem").what
    project.facts["dvc"] = {"late": True}
    assert "takes too long" in only(project.check(check_cache), "problem").what


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


def test_a_default_that_is_not_configured_and_none_that_is_the_default(lab) -> None:
    (lab.folder / ".dvc/config").write_text("[core]\n    remote = other\n['remote \"lab\"']\n    url = /tmp\n")
    assert only(ask(lab), "problem")
    (lab.folder / ".dvc/config").write_text("['remote \"lab\"']\n    url = /tmp\n")
    assert "none of the remotes is the default (lab)" in only(ask(lab), "warning").what


REMOTE = {"remotes": {"lab": "s3://bucket/x"}, "remote": "lab", "committed_secrets": []}
ANSWER = {"answers": True, "lacks": [], "gone": []}


@pytest.mark.parametrize(
    ("facts", "state", "word", "todo"),
    [
        (ANSWER, "ok", "answers, and has all outputs", ""),
        ({"writable": False}, "problem", "cannot be written to", "permission"),
        ({**ANSWER, "lacks": ["a", "b"], "gone": ["c"]}, "warning", "lacks a, b", "`dvc push`."),
        ({**ANSWER, "lacks": ["a", "b"], "gone": ["b"]}, "warning", "lacks a, b", "`dvc repro` (or raw data in its"),
        ({"remote_error": "NoCredentialsError: x"}, "problem", "NoCredentials", "credentials"),
        ({"remote_error": "RemoteMissingDepsError: x"}, "problem", "MissingDeps", "pip install"),
        ({"remote_error": "OSError: x"}, "problem", "cannot be reached: OSError", "VPN"),
        ({"late": True}, "problem", "no answer within", "VPN"),
        ({"failed": "Killed"}, "problem", "Killed", "VPN"),
    ],
)
def test_findings_by_the_facts_of_dvc(project, facts, state, word, todo) -> None:
    project.facts["dvc"] = {**REMOTE, **facts}
    found = only(project.check(check_remote), state)
    assert word in found.what
    assert todo in found.todo


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("kind", ["http", "ssh"])
def test_a_dead_remote_is_reported_without_credentials(lab, kind) -> None:
    configure(lab, f"{kind}://me:hunter2@127.0.0.1:{closed_port()}/lab", name="config.local")
    found = only(ask(lab), "problem")
    assert "cannot be reached" in found.what
    assert "127.0.0.1" in found.what
    assert "hunter2" not in str(found)


def test_addresses_are_shown_without_credentials() -> None:
    text = "refused by http://me:pass@host/x?sig=abc and s3://KEY:word@bucket"
    assert probes.mask_address(text) == "refused by http://***@host/x?*** and s3://***@bucket"


@pytest.mark.slow
def test_a_remote_that_never_answers_is_not_waited_for(lab, monkeypatch) -> None:
    monkeypatch.setattr(module, "DVC_SECONDS", 8.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(lab, f"ssh://127.0.0.1:{silent.getsockname()[1]}/lab")
        found = only(ask(lab), "problem")
    assert "no answer within" in found.what


def test_a_credential_in_git_is_a_problem_and_not_printed(lab) -> None:
    configure(lab, "s3://bucket/lab", secret_access_key="hunter2", access_key_id="AKIA")
    found = ask(lab, quick=True)
    assert 'remote.remote "lab"' not in found[0].what
    assert "lab.secret_access_key" in only(found, "problem").what
    assert "hunter2" not in str(found)


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
        (0o2775, 0o700, 0o444, "g", "007"),
        (0o755, 0o750, 0o640, "go", "022"),
        (0o2770, 0o2750, 0o640, "", ""),
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
    for path, mode in (
        (kept.parent, outer),
        (folder / "files/md5", outer),
        (folder / "files", remote),
        (folder, remote),
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
    with Context(lab.folder, lab.folder, facts={"torch": {}}) as context:
        found = list(examine([Check("cache", check_cache), Check("remote", check_remote)], context))
    assert "DVC cannot work here" in only(found, "problem").what
    assert todo in only(found, "problem").todo
