"""``anew import faktory``: a real Redis, filled as Faktory fills it, moved into a store, and worked by the Faktory protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis", reason="redis-py is not installed")
if shutil.which("redis-server") is None:
    pytest.skip("redis-server is not installed", allow_module_level=True)

from anew.app import importing
from anew.app.faktory_data import opened
from anew.app.importing import Refusal, import_faktory
from anew.cli.root import run
from anew.config import load_settings
from anew.errors import Conflict
from anew.jobs import State
from anew.store.selection import Filter, Page
from anew.store.sqlite import open_sqlite
from tests.faktory_wire import FaktoryWire

from .faktory_redis import FaktoryRedis, a_job, failed
from .server import ServerProcess, environment

ALL = Page(limit=1_000_000)
READS = {
    "client|id", "client|list", "exists", "get", "info", "llen", "lrange", "scan", "smembers", "type", "zcard", "zrange",
}  # fmt: skip


@pytest.fixture
def source() -> Iterator[FaktoryRedis]:
    """An empty Redis."""
    redis = FaktoryRedis()
    yield redis
    redis.close()


@pytest.fixture
def root_dir(tmp_path: Path) -> Path:
    return tmp_path / "store"


def fill(source: FaktoryRedis) -> None:
    """Jobs in every place; what has a time has it long ago or far ahead."""
    now = time.time()
    source.push("mail", *(a_job(n) for n in range(30)), a_job(3), a_job(30, failure=failed(0)))
    source.push("bulk", *(a_job(n, "bulk", custom={"bid": "b-1", "locale": "de"}) for n in range(100, 105)))
    source.say("SADD", "queues", "idle")
    source.say("SADD", "paused", "bulk")
    for n in range(200, 204):
        source.put("scheduled", now + n * 86_400, a_job(n, at="2030-01-01T00:00:00Z", enqueued_at=None))
    source.put("retries", now - 60, a_job(300, "again", failure=failed(1)))
    source.put("retries", now + 86_400, a_job(301, "again", failure=failed(2)))
    source.put("dead", now + 86_400, a_job(400, retry=-1, failure=failed(0, remaining=-1)))
    source.put("dead", now + 86_400, a_job(401, at="2030-01-01T00:00:00Z"))
    for n in (500, 501):
        held = {"reserved_at": "2026-01-01T08:00:02Z", "expires_at": "2026-01-01T09:00:02Z", "wid": "w-1"}
        source.put("working", now + 3_600, {"job": a_job(n, "busy")} | held)
    source.say("SET", "processed", 12)
    source.say("SET", "failures:2026-01-01", 3)


PLACES = {
    "working": 2, "scheduled": 4, "retries": 2, "dead": 2, "q:bulk": 5, "q:idle": 0, "q:mail": 32,
}  # fmt: skip


def imported(source: str, root_dir: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """The command's exit code and its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "anew", "import", "faktory", source, "--root-dir", str(root_dir), "--json", *words],
        capture_output=True, text=True, timeout=60, env=environment(), check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def move(source: FaktoryRedis, root_dir: Path, progress: Any = lambda done, there: None) -> Any:
    """The same in this process; gives the report."""
    settings = load_settings({"root-dir": str(root_dir)}, {}, None).settings
    with opened(source.url) as data:
        return import_faktory(data, settings, refused=_nobody, progress=progress)


def _nobody(refusal: Refusal) -> None:
    raise AssertionError(refusal)


def stored(root_dir: Path) -> Counter[tuple[str, State]]:
    """What a store has: jobs by id and state."""
    store = open_sqlite(root_dir)
    jobs = store.load(store.find(Filter(), ALL))
    store.close()
    return Counter((job.jid or "", job.state) for job in jobs)


def counts(document: dict[str, Any], part: str) -> dict[str, int]:
    return {place: tally[part] for place, tally in document["places"].items()}


# -- what is moved


def test_all_is_moved_and_the_counts_agree(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    code, document = imported(source.url, root_dir)
    assert code == 0
    assert document["agrees"] is True
    assert counts(document, "there") == counts(document, "read") == counts(document, "imported") == PLACES
    assert document["paused"] == ["bulk"]
    assert document["not_moved"] == {"custom": {"bid": 5}, "other_keys": 0, "some_keys": []}
    states = Counter(state for _, state in stored(root_dir).elements())
    assert states == {  # one of the two retries was due, and is ready
        State.READY: 38, State.SCHEDULED: 4, State.RETRYING: 1, State.DEAD: 2, State.IN_FLIGHT: 2,
    }  # fmt: skip


def test_workers_get_the_jobs_as_faktory_would_give_them(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    assert imported(source.url, root_dir)[0] == 0
    server = ServerProcess(root_dir)
    try:
        host, port = server.address_of("fwp")
        with FaktoryWire.open(f"tcp://{host}:{port}") as wire:
            _work(wire)
    finally:
        server.close()


def ask(wire: FaktoryWire, line: str) -> Any:
    wire.send(line)
    answer = wire.read()
    return None if answer == "$-1" else json.loads(answer[1:]) if answer[0] == "$" else answer


def _work(wire: FaktoryWire) -> None:
    info = ask(wire, "INFO")["faktory"]
    # One of the retries is due, and may have come back to its queue.
    due = info["queues"].get("again", 0)
    assert info["sets"] == {"scheduled": 4, "retries": 2 - due, "dead": 2, "working": 2}
    assert info["queues"] == {"bulk": 5, "idle": 0, "mail": 32} | ({"again": 1} if due else {})
    expected = [a_job(n) for n in range(30)] + [a_job(3), a_job(30, failure=failed(0))]
    for job in expected:
        assert ask(wire, "FETCH bulk mail") == job  # bulk is paused
        assert ask(wire, f'ACK {{"jid":"{job["jid"]}"}}') == "+OK"
    retry = ask(wire, "FETCH again")
    assert retry.pop("enqueued_at") > "2026-01-01T08:00:01.3Z"
    assert retry == a_job(300, "again", failure=failed(1), enqueued_at=None)
    assert ask(wire, 'FAIL {"jid":"job-000300","errtype":"New","message":"again"}') == "+OK"
    ask(wire, 'MUTATE {"cmd":"requeue","target":"retries"}')
    first, second = ask(wire, "FETCH again"), ask(wire, "FETCH again")
    assert {first["jid"], second["jid"]} == {"job-000300", "job-000301"}
    failure = next(job["failure"] for job in (first, second) if job["jid"] == "job-000300")
    assert failure.pop("next_at") > "2026-01-01T10:00:00.5Z"
    assert failure == {
        "failed_at": "2026-01-01T09:00:00.5Z", "message": "again", "errtype": "New", "retry_count": 2, "remaining": 23,
    }  # fmt: skip
    # A worker that still had a job reports to the new server.
    assert ask(wire, 'ACK {"jid":"job-000500"}') == "+OK"
    assert ask(wire, 'FAIL {"jid":"job-000501","errtype":"E","message":"m"}') == "+OK"
    sets = ask(wire, "INFO")["faktory"]["sets"]
    assert sets == {"scheduled": 4, "retries": 1, "dead": 2, "working": 2}
    ask(wire, "QUEUE RESUME bulk")
    assert ask(wire, "FETCH bulk")["custom"] == {"bid": "b-1", "locale": "de"}


def test_a_server_on_the_store_hands_out_what_comes_and_nothing_of_a_paused_queue(
    source: FaktoryRedis, root_dir: Path
) -> None:
    source.push("bulk", *(a_job(n, "bulk") for n in range(100, 103)))
    source.say("SADD", "paused", "bulk")
    source.push("mail", *(a_job(n) for n in range(3)))
    server = ServerProcess(root_dir)
    words = [sys.executable, "-m", "anew", "import", "faktory", source.url, "--root-dir", str(root_dir)]
    try:
        host, port = server.address_of("fwp")
        with FaktoryWire.open(f"tcp://{host}:{port}") as wire:
            importing_process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment())
            got: list[int] = []
            while len(got) < 3:
                job = ask(wire, "FETCH bulk mail")
                got += job["args"] if job else []
            assert importing_process.wait(60) == 0
            assert got == [0, 1, 2]
            assert ask(wire, "INFO")["faktory"]["queues"] == {"bulk": 3, "mail": 0}
    finally:
        server.close()


def test_lists_without_a_prefix_and_keys_of_others(source: FaktoryRedis, root_dir: Path) -> None:
    source.push("mail", a_job(1))
    source.say("LPUSH", "mail", json.dumps(a_job(2)))
    source.say("LPUSH", "q:unknown", json.dumps(a_job(3)))
    source.say("HSET", "tracked", "a", "b")
    code, document = imported(source.url, root_dir)
    assert (code, counts(document, "imported")["q:mail"], counts(document, "imported")["mail"]) == (0, 1, 1)
    assert document["not_moved"]["some_keys"] == ["q:unknown", "tracked"]
    assert set(stored(root_dir)) == {("job-000001", State.READY), ("job-000002", State.READY)}


# -- the source


def test_the_source_is_only_read(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    before = source.dump()
    source.forget_calls()
    assert imported(source.url, root_dir)[0] == 0
    by_this_test = {"config|resetstat", "hello", "client|setinfo"}
    assert source.calls() - by_this_test <= READS
    assert source.dump() == before


def test_a_faktory_that_runs_is_refused(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    with source.client() as faktory:
        faktory.ping()
        code, document = imported(source.url, root_dir)
        assert code == 5
        assert "in use by 1 other connections" in document["error"]
        code, document = imported(str(source.directory), root_dir)
        assert code == 5
        assert "stop Faktory first" in document["error"]
    assert not root_dir.exists()


def test_a_change_midway_ends_the_import_and_the_next_one_goes_on(
    source: FaktoryRedis, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "CHUNK", 10)
    source.push("mail", *(a_job(n) for n in range(35)))

    def faktory_starts(done: int, there: int) -> None:
        if done == 20:
            source.push("mail", a_job(99))

    with pytest.raises(Conflict, match="another program has sent lpush, sadd meanwhile"):
        move(source, root_dir, faktory_starts)
    assert sum(stored(root_dir).values()) == 20
    report = move(source, root_dir)
    assert report.agrees()
    assert (report.tallies["q:mail"].imported, report.tallies["q:mail"].skipped) == (16, 20)
    assert stored(root_dir) == Counter((f"job-{n:06}", State.READY) for n in (*range(35), 99))


def test_a_data_directory_is_read_by_a_redis_of_its_own(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    source.save()
    rdb = source.directory / "faktory.rdb"
    before = rdb.read_bytes(), rdb.stat().st_mtime_ns, sorted(source.directory.iterdir())
    code, document = imported(str(source.directory), root_dir)
    assert (code, counts(document, "imported")) == (0, PLACES)
    assert (rdb.read_bytes(), rdb.stat().st_mtime_ns, sorted(source.directory.iterdir())) == before


def test_a_data_directory_that_is_written_midway_ends_the_import(
    source: FaktoryRedis, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "CHUNK", 10)
    fill(source)
    source.save()
    settings = load_settings({"root-dir": str(root_dir)}, {}, None).settings

    def faktory_saves(done: int, there: int) -> None:
        (source.directory / "faktory.rdb").touch()

    with opened(str(source.directory)) as data, pytest.raises(Conflict, match="has been written meanwhile"):
        import_faktory(data, settings, refused=_nobody, progress=faktory_saves)
    assert sum(stored(root_dir).values()) == PLACES["working"]


def test_the_redis_that_reads_a_directory_ends_with_a_killed_import(
    source: FaktoryRedis, root_dir: Path
) -> None:
    fill(source)
    source.save()
    words = [sys.executable, "-c", KILLED, str(source.directory), str(root_dir)]
    own = environment() | {"TMPDIR": str(source.directory)}  # what it leaves goes with the test
    killed = subprocess.run(words, env=own, stdout=subprocess.PIPE, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    (redis,) = map(int, killed.stdout.split())
    try:
        ended = os.pidfd_open(redis)
    except ProcessLookupError:
        return
    assert select.select([ended], [], [], 30)[0]
    os.close(ended)


def test_a_file_that_redis_cannot_read_is_said(source: FaktoryRedis, root_dir: Path) -> None:
    source.stop()
    (source.directory / "faktory.rdb").write_bytes(b"REDIS9999")
    code, document = imported(str(source.directory), root_dir)
    assert code == 2
    assert "redis-server cannot read" in document["error"]
    assert "RDB format version 9999" in document["error"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("SET", "other", "x"), "has none of Faktory's keys"),
        (("SET", "v", "2"), "newer Faktory"),
        (("SET", "retries", "x"), "is not the data of Faktory 1.10: WRONGTYPE"),
    ],
)
def test_other_data_is_refused(
    source: FaktoryRedis, root_dir: Path, command: tuple[str, ...], said: str
) -> None:
    if command[1] != "other":
        source.say("SADD", "queues", "mail")
    source.say(*command)
    code, document = imported(source.url, root_dir)
    assert code == 2
    assert said in document["error"]
    assert not root_dir.exists()


@pytest.mark.parametrize(
    ("place", "code", "said"),
    [
        ("unix:///nowhere/redis.sock", 3, "no Redis answers at unix:///nowhere/redis.sock"),
        ("redis://:secret@127.0.0.1:1", 3, "no Redis answers at redis://127.0.0.1:1"),
        ("redis://127.0.0.1:1/0?password=secret", 3, "no Redis answers at redis://127.0.0.1:1/0"),
        ("redis://[::1", 2, "is no address of a Redis"),
        ("redis://u:secret@[x]/0", 2, "is no address of a Redis"),
        ("http://127.0.0.1", 2, "is no address of a Redis"),
        ("/nowhere", 4, "there is no directory /nowhere"),
    ],
)
def test_a_place_without_faktory_is_said(root_dir: Path, place: str, code: int, said: str) -> None:
    found, document = imported(place, root_dir)
    assert (found, "secret" in document["error"]) == (code, False)
    assert said in document["error"]


def test_where_it_cannot_be_told_whether_faktory_runs_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faktory lets nobody but its own user near its socket."""

    class Closed:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Closed:
            return self

        def __exit__(self, *_: object) -> None: ...
        def connect(self, path: str) -> None:
            raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("anew.app.faktory_data.socket.socket", Closed)
    with pytest.raises(Conflict, match="cannot tell whether Faktory runs"), opened(str(tmp_path)):
        pass


def test_a_redis_with_a_password_is_asked_with_it(source: FaktoryRedis, root_dir: Path) -> None:
    source.push("mail", a_job(1))
    source.say("CONFIG", "SET", "requirepass", "sesame")
    for address in (source.url, source.url.replace("unix://", "unix://:wrong@")):
        code, document = imported(address, root_dir)
        assert (code, "wrong" in document["error"]) == (5, False)
        assert f"Redis at {source.url} refuses the password" in document["error"]
        assert "redis://:PASSWORD@HOST" in document["error"]
    assert imported(source.url.replace("unix://", "unix://:sesame@"), root_dir)[0] == 0


# -- once, whatever happens


def test_a_dry_run_counts_and_writes_nothing(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    code, document = imported(source.url, root_dir, "--dry-run")
    assert (code, counts(document, "imported")) == (0, PLACES)
    assert not root_dir.exists()
    assert imported(source.url, root_dir)[0] == 0
    before = stored(root_dir)
    code, document = imported(source.url, root_dir, "--dry-run")
    assert (code, counts(document, "skipped")) == (0, PLACES)
    assert set(counts(document, "imported").values()) == {0}
    assert stored(root_dir) == before


def test_what_ran_meanwhile_is_not_imported_again(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    assert imported(source.url, root_dir)[0] == 0
    before = stored(root_dir)
    store = open_sqlite(root_dir)
    store.begin(synced=True)
    store.delete(store.find(Filter(queues=frozenset({"mail"})), ALL))
    store.commit()
    store.close()
    code, document = imported(source.url, root_dir)
    assert (code, counts(document, "skipped")) == (0, PLACES)
    assert sum(stored(root_dir).values()) < sum(before.values())
    code, document = imported(source.url, root_dir, "--start-over")
    assert (code, counts(document, "imported")) == (0, PLACES)


KILLED = """
import os, signal, sys
from anew.app import importing
from anew.app.faktory_data import opened
from anew.config import load_settings

def progress(done, there):
    if done == 25:
        with open("/proc/self/task/%d/children" % os.getpid()) as children:
            print(children.read(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

importing.CHUNK = 5
settings = load_settings({"root-dir": sys.argv[2]}, {}, None).settings
with opened(sys.argv[1]) as data:
    importing.import_faktory(data, settings, refused=print, progress=progress)
"""


def test_a_killed_import_is_gone_on_with_and_doubles_nothing(source: FaktoryRedis, root_dir: Path) -> None:
    """One id stands twice in a queue: both are jobs."""
    fill(source)
    words = [sys.executable, "-c", KILLED, source.url, str(root_dir)]
    killed = subprocess.run(words, env=environment(), timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    code, document = imported(source.url, root_dir)
    assert code == 0
    skipped, moved = counts(document, "skipped"), counts(document, "imported")
    assert sum(skipped.values()) == 25
    assert {place: skipped[place] + moved[place] for place in moved} == PLACES
    ids = Counter(jid for jid, _ in stored(root_dir).elements())
    assert (ids.pop("job-000003"), set(ids.values()), len(ids)) == (2, {1}, 45)


def test_a_failure_between_chunks_leaves_whole_chunks(
    source: FaktoryRedis, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source)
    monkeypatch.setattr(importing, "CHUNK", 4)
    for stop_at in range(4, 48, 9):

        def progress(done: int, there: int, stop_at: int = stop_at) -> None:
            if done >= stop_at:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            move(source, root_dir, progress)
    monkeypatch.setattr(importing, "CHUNK", 7)  # how it was cut does not matter
    assert move(source, root_dir).agrees()
    assert sum(stored(root_dir).values()) == sum(PLACES.values())


def test_two_imports_at_a_time_double_nothing(
    source: FaktoryRedis, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "CHUNK", 10)
    fill(source)
    source.save()
    settings = load_settings({"root-dir": str(root_dir)}, {}, None).settings
    others: list[int] = []

    def another(done: int, there: int) -> None:
        if not others:
            others.append(imported(str(source.directory), root_dir)[0])

    with opened(str(source.directory)) as data, pytest.raises(Conflict, match="another import moves"):
        import_faktory(data, settings, refused=_nobody, progress=another)
    assert others == [0]
    assert sum(stored(root_dir).values()) == sum(PLACES.values())


def test_another_faktory_is_not_taken_for_the_same(source: FaktoryRedis, root_dir: Path) -> None:
    fill(source)
    assert imported(source.url, root_dir)[0] == 0
    before = stored(root_dir)
    source.say("RPOP", "q:mail")
    source.push("mail", a_job(99))  # as many as before
    for words in ((), ("--dry-run",)):
        code, document = imported(source.url, root_dir, *words)
        assert code == 5
        assert "q:mail is not as it was" in document["error"]
    assert stored(root_dir) == before


def test_long_jobs_come_in_small_chunks(
    source: FaktoryRedis, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "CHUNK", 4)
    monkeypatch.setattr(importing, "CHUNK_BYTES", 25_000)
    source.push("mail", *(a_job(n, args=["x" * 10_000]) for n in range(10)))
    seen: list[int] = []
    move(source, root_dir, lambda done, there: seen.append(done))
    assert seen == [2, 4, 6, 8, 10]  # 20,000 bytes each, the first one too


# -- what cannot be read


def test_what_cannot_be_read_is_named_and_hurts_nothing_else(
    source: FaktoryRedis, root_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.push("mail", a_job(0), b"{broken", a_job(2), a_job(3, jid="short"))
    source.put("dead", time.time() + 60, b"\xff\x00")
    words = ["import", "faktory", source.url, "--root-dir", str(root_dir)]
    assert run([*words, "--json"]) == 5
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["agrees"] is True
    assert document["places"]["q:mail"] == {"there": 4, "read": 4, "imported": 2, "skipped": 0, "refused": 2}
    assert document["places"]["dead"]["refused"] == 1
    found = [(each["key"], each["number"]) for each in document["unreadable"]]
    assert found == [("dead", 0), ("q:mail", 1), ("q:mail", 3)]
    assert "invalid JSON" in document["unreadable"][1]["reason"]
    assert document["unreadable"][2]["reason"] == "jobs must have a reasonable jid parameter"
    assert "q:mail 1: invalid JSON" in shown.err
    assert run(words) == 5  # they are still there, and counted
    assert "q:mail     4      4     0         2        2" in capsys.readouterr().out
    assert set(stored(root_dir)) == {("job-000000", State.READY), ("job-000002", State.READY)}


def test_without_the_library_it_says_what_to_install(
    root_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    assert run(["import", "faktory", "/tmp", "--root-dir", str(root_dir)]) == 5
    assert "pip install 'anew[faktory]'" in capsys.readouterr().err


def test_without_redis_server_it_says_so(
    source: FaktoryRedis, root_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(source)
    source.save()
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["import", "faktory", str(source.directory), "--root-dir", str(root_dir)]) == 5
    assert "redis-server is not installed" in capsys.readouterr().err
