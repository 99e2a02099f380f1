"""The remote, asked through DVC."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import context as module
from pipeline.doctor import dvc_facts
from pipeline.doctor.context import Situation
from pipeline.doctor.findings import Check, Finding, examine
from pipeline.doctor.remote import look_at_remote


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
    with Situation(project.folder, project.folder, quick=quick, dvc="pipeline.doctor.dvc_facts") as situation:
        situation.known["torch"] = {}
        return list(examine([Check("remote", look_at_remote)], situation))


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only DVC is asked here."""
    real = Situation._ask
    monkeypatch.setattr(Situation, "_ask", lambda self, name, *rest: real(self, name, *rest) if name == "dvc" else None)


def test_no_remote(lab) -> None:
    assert "no remote" in only(ask(lab), "warning").what


def test_a_folder_that_is_there_or_not(lab, tmp_path: Path) -> None:
    configure(lab, str(tmp_path / "remote"))
    assert "not there yet" in only(ask(lab), "warning").what
    (tmp_path / "remote").mkdir()
    assert "answers, nothing is in it yet" in only(ask(lab), "ok").what
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


def test_a_web_server_is_asked_once_and_any_answer_is_one() -> None:
    for status in (200, 404, 401, 503):
        with server(status) as url:
            assert dvc_facts._status(url) == status


REMOTE = {"remotes": {"lab": "s3://bucket/x"}, "remote": "lab", "committed_secrets": [], "reached": True}
OUTS = [{"path": "a", "cached": True, "pushed": True}, {"path": "b", "cached": False, "pushed": False}]


@pytest.mark.parametrize(
    ("facts", "state", "word", "todo"),
    [
        ({"status": 404}, "ok", "answers", ""),
        ({"status": 401}, "warning", "wants credentials", "--local"),
        ({"status": 503}, "problem", "error 503", "address"),
        ({"empty": True}, "ok", "nothing is in it yet", ""),
        ({"writable": False}, "problem", "cannot be written to", "permission"),
        ({"remote_error": "PermissionError: Forbidden"}, "warning", "not known: PermissionError", "--cloud"),
        ({"outs": OUTS[:1]}, "ok", "all 1 outputs", ""),
        ({"outs": OUTS}, "warning", "lacks b", "b must first be made"),
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
def test_what_is_said_of_what_dvc_found(project, facts, state, word, todo) -> None:
    known = {**REMOTE, **facts}
    project.known["dvc"] = {name: value for name, value in known.items() if name != "reached" or value is not None}
    found = [one for one in project.look(look_at_remote) if one.state == state and word in one.what]
    assert found
    assert todo in found[0].todo


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("kind", ["http", "ssh"])
def test_a_dead_remote_and_no_credential_in_what_is_said(lab, kind) -> None:
    configure(lab, f"{kind}://me:hunter2@127.0.0.1:{closed_port()}/lab", name="config.local")
    found = only(ask(lab), "problem")
    assert "cannot be reached" in found.what
    assert "127.0.0.1" in found.what
    assert "hunter2" not in json.dumps(found.as_json())


def test_messages_are_cleaned_of_credentials() -> None:
    config = {
        "remote": {"lab": {"url": "http://me:pass@host/x?sig=abc", "password": "hunter2", "ask_password": "true"}}
    }
    secrets = sorted(dvc_facts._secrets(config), key=len, reverse=True)
    text = "hunter2 was refused by http://me:pass@host/x?sig=abc and s3://KEY:word@bucket"
    assert dvc_facts._clean(text, secrets) == "*** was refused by http://***@host/x?*** and s3://***@bucket"
    assert dvc_facts._secret_names(config) == {"remote.lab.url", "remote.lab.password"}


@pytest.mark.slow
def test_a_remote_that_never_answers_is_not_waited_for(lab, monkeypatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 8.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(lab, f"ssh://127.0.0.1:{silent.getsockname()[1]}/lab")
        found = only(ask(lab), "problem")
    assert "no answer within" in found.what


def test_a_credential_that_goes_to_git_is_a_problem_and_not_shown(lab) -> None:
    configure(lab, "s3://bucket/lab", secret_access_key="hunter2", access_key_id="AKIA")
    found = ask(lab, quick=True)
    assert 'remote.remote "lab"' not in found[0].what
    assert "lab.secret_access_key" in only(found, "problem").what
    assert "hunter2" not in json.dumps([one.as_json() for one in found])


@pytest.mark.slow
def test_what_was_not_pushed(lab, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    configure(lab, str(tmp_path / "remote"))
    oid = "d41d8cd98f00b204e9800998ecf8427e"
    (lab.folder / "raw.dvc").write_text(f"outs:\n- md5: {oid}\n  size: 0\n  hash: md5\n  path: raw\n")
    cached = lab.folder / ".dvc/cache/files/md5" / oid[:2] / oid[2:]
    run = lab.folder / ".dvc/cache/runs/ab/abcd/ef"
    assert "must first be made" in only(ask(lab), "warning").todo
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
    ("config", "site", "todo"), [("[core\n", "site", "config"), ("", "/proc/no", "SITE_CACHE_DIR")]
)
def test_a_broken_configuration_and_notes_that_cannot_be_written(
    lab, tmp_path, monkeypatch, config, site, todo
) -> None:
    from pipeline.doctor.storage import look_at_cache

    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / site))
    (lab.folder / ".dvc/config").write_text(config)
    with Situation(lab.folder, lab.folder, dvc="pipeline.doctor.dvc_facts") as situation:
        found = list(examine([Check("cache", look_at_cache), Check("remote", look_at_remote)], situation))
    assert "DVC cannot work here" in only(found, "problem").what
    assert todo in only(found, "problem").todo
