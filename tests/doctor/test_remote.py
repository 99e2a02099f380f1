"""DVC, its cache and its remote."""

from __future__ import annotations

import contextlib
import http.server
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import s3_front
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
    assert "answers, and is empty" in only(ask(lab), "ok").what
    configure(lab, "/proc/1/nothing")
    assert "cannot be written to" in only(ask(lab), "problem").what


def test_a_default_that_is_not_configured_and_none_that_is_the_default(lab) -> None:
    (lab.folder / ".dvc/config").write_text("[core]\n    remote = other\n['remote \"lab\"']\n    url = /tmp\n")
    assert only(ask(lab), "problem")
    (lab.folder / ".dvc/config").write_text("['remote \"lab\"']\n    url = /tmp\n")
    assert "none of the remotes is the default (lab)" in only(ask(lab), "warning").what


@contextlib.contextmanager
def server(status: int) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}/lab"
        finally:
            found.shutdown()
            thread.join()


def test_any_status_shows_that_a_web_server_answers() -> None:
    for status in (200, 404, 401, 503):
        with server(status) as url:
            remote = SimpleNamespace(fs=SimpleNamespace(protocol="http"), path=url)
            assert probes._reach(remote) == {"reached": True, "status": status}


REMOTE = {"remotes": {"lab": "s3://bucket/x"}, "remote": "lab", "committed_secrets": [], "reached": True}
OUTS = [
    {"path": "a", "file": "dvc.yaml", "cached": True, "pushed": True},
    {"path": "b", "file": "dvc.yaml", "cached": False, "pushed": False},
]
GONE = [{"path": path, "file": file, "cached": False, "pushed": False} for path, file in (
    ("b", "dvc.yaml"), ("c", "grounded/dvc.yaml"), ("d", "grounded/dvc.yaml"), ("raw/x", "raw/x.dvc"),
)]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "state", "word", "todo"),
    [
        ({"status": 404}, "ok", "answers", ""),
        ({"status": 401}, "warning", "wants credentials", "--local"),
        ({"status": 503}, "problem", "error 503", "address"),
        ({"empty": True}, "ok", "and is empty", ""),
        ({"writable": False}, "problem", "cannot be written to", "permission"),
        ({"remote_error": "PermissionError: Forbidden"}, "warning", "cannot be listed: PermissionError", "--cloud"),
        ({"outs": OUTS[:1]}, "ok", "all 1 outputs", ""),
        ({"outs": OUTS}, "warning", "lacks b", "the cache lacks them too, `dvc repro` for b."),
        (
            {"outs": GONE},
            "warning",
            "lacks b, c, d, raw/x",
            "`dvc repro` for b, `dvc repro grounded/dvc.yaml` for c, d, ",
        ),
        ({"outs": GONE}, "warning", "lacks b", "its data in their place and `dvc commit raw/x.dvc` for raw/x."),
        ({"runs": {"local": 5, "pushed": 3}}, "warning", "lacks 2", "dvc push --run-cache"),
        ({"runs": {"local": 5, "pushed": 5}}, "ok", "5 newest runs", ""),
        ({"runs": None}, "ok", "answers", ""),
        ({"reached": None, "remote_error": "NoCredentialsError: x"}, "problem", "NoCredentials", "credentials"),
        ({"reached": None, "remote_error": "RemoteMissingDepsError: x"}, "problem", "MissingDeps", "pip install"),
        ({"reached": None, "remote_error": "OSError: x"}, "problem", "cannot be reached: OSError", "VPN"),
        ({"reached": None, "late": True}, "problem", "no answer within", "VPN"),
        ({"reached": None, "failed": "Killed"}, "problem", "Killed", "VPN"),
    ],
)
def test_findings_by_the_facts_of_dvc(project, facts, state, word, todo) -> None:
    known = {**REMOTE, **facts}
    project.facts["dvc"] = {name: value for name, value in known.items() if name != "reached" or value is not None}
    found = [one for one in project.check(check_remote) if one.state == state and word in one.what]
    assert found
    assert todo in found[0].todo


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


@pytest.mark.slow
def test_a_web_server_is_no_remote_of_s3(lab) -> None:
    with s3_front.front_of("http://127.0.0.1:1") as front:
        front.fault = lambda *_: (200, {"Content-Type": "text/html"}, b"<html><body>Please log in</body></html>")
        keys = {"access_key_id": "AKIA", "secret_access_key": "hunter2", "region": "us-east-1"}
        configure(lab, "s3://bucket/lab", name="config.local", endpointurl=front.endpoint, **keys)
        found = only(ask(lab), "problem")
    assert "cannot be reached: OtherAnswerError: the answer is text/html, not S3's listing" in found.what
    assert "hunter2" not in str(found)


def test_messages_are_cleaned_of_credentials() -> None:
    config = {
        "remote": {"lab": {"url": "http://me:pass@host/x?sig=abc", "password": "hunter2", "ask_password": "true"}}
    }
    text = "hunter2 was refused by http://me:pass@host/x?sig=abc and s3://KEY:word@bucket"
    assert probes.without_secrets(text, config) == "*** was refused by http://***@host/x?*** and s3://***@bucket"
    assert set(probes.secrets(config)) == {"remote.lab.url", "remote.lab.password"}


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


@pytest.mark.slow
def test_outputs_and_runs_that_were_not_pushed(lab, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    configure(lab, str(tmp_path / "remote"))
    oid = "d41d8cd98f00b204e9800998ecf8427e"
    (lab.folder / "raw.dvc").write_text(f"outs:\n- md5: {oid}\n  size: 0\n  hash: md5\n  path: raw\n")
    cached = lab.folder / ".dvc/cache/files/md5" / oid[:2] / oid[2:]
    run = lab.folder / ".dvc/cache/runs/ab/abcd/ef"
    assert "its data in their place and `dvc commit raw.dvc` for raw." in only(ask(lab), "warning").todo
    for path in (cached, run):
        path.parent.mkdir(parents=True)
        path.write_text("")
    found = [one for one in ask(lab) if one.state == "warning"]
    assert [one.todo.partition("`;")[0] for one in found] == ["`dvc push`.", "`dvc push --run-cache"]
    assert "lacks raw" in found[0].what
    assert "lacks 1" in found[1].what
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
def test_runs_that_the_others_of_a_remote_cannot_read_are_named_with_owner_and_remedy(
    lab, tmp_path, remote, outer, file, readers, umask
) -> None:
    folder, owner = tmp_path / "remote", pwd.getpwuid(os.geteuid()).pw_name
    configure(lab, str(folder))
    for place in (lab.folder / ".dvc/cache", folder):
        run = place / "runs/ab/abcd/ef"
        run.parent.mkdir(parents=True)
        run.write_text("")
    (folder / "runs/ab/abcd/ef").chmod(file)
    for path, mode in (("runs/ab/abcd", outer), ("runs/ab", outer), ("runs", remote), ("", remote)):
        (folder / path).chmod(mode)
    found = [one for one in ask(lab) if "answers" not in one.what]
    if not readers:
        assert [one.what for one in found] == ["the remote has the 1 newest runs in DVC's run-cache"]
        return
    named = folder / ("runs/ab/abcd/ef" if outer == remote else "runs/ab")
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
