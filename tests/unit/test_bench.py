"""The bench: its arguments, its arithmetic, and one short run against the real server."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import fwp, lab, loader, tasks
from bench.__main__ import main, parser
from bench.figures import latencies, median_row, percentile, ratio
from bench.http1 import TakeStream, job_id, request
from bench.http2 import frame, post_block
from bench.loader import LoadError, Spec, Takers, bulk, names, settling
from bench.scenarios import NAMES

ERROR = {"error_type": "IOError", "backtrace": "a.go:1\nb.go:2"}


def test_everything_is_measured_by_default() -> None:
    args = parser().parse_args([])
    assert args.only == NAMES
    assert (args.peer, args.rounds, args.quick, args.json) == (None, None, False, False)


def test_arguments_are_read() -> None:
    line = ["--only", "enqueue1, ack-bulk", "--peer", "other serve", "--rounds", "5", "--quick", "--json"]
    args = parser().parse_args(line)
    assert args.only == ["enqueue1", "ack-bulk"]
    assert (args.peer, args.rounds, args.quick, args.json) == ("other serve", 5, True, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--only", "enqueue2"], "unknown scenario 'enqueue2'"),
        (["--only", ","], "unknown scenario ','"),
        (["--rounds", "0"], "'0' is not a whole number of at least 1"),
        (["--rounds", "two"], "'two' is not a whole number of at least 1"),
    ],
)
def test_a_wrong_argument_is_named(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(line)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("share", "value"), [(0.0, 10), (0.5, 20), (0.99, 40), (1.0, 50)])
def test_percentiles_of_five_values(share: float, value: int) -> None:
    # Places 0 to 4: the half is place 2 of 10, 15, 20, 40, 50; 0.99 x 4 = 3.96 is still place 3.
    assert percentile([10, 15, 20, 40, 50], share) == value


def test_percentile_of_nothing_is_zero() -> None:
    assert percentile([], 0.99) == 0


def test_latencies_are_sorted_and_told_in_milliseconds() -> None:
    assert latencies([3_000_000, 1_000_000, 2_500_000]) == {"p50_ms": 2.5, "p99_ms": 2.5, "max_ms": 3.0}


def test_the_median_row_keeps_its_own_figures() -> None:
    rows = [{"rate": 9, "run": "c"}, {"rate": 2, "run": "a"}, {"rate": 5, "run": "b"}]
    assert median_row(rows, "rate") == {"rate": 5, "run": "b"}
    assert median_row(rows[:2], "rate") == {"rate": 2, "run": "a"}


def test_a_ratio_needs_something_to_divide_by() -> None:
    assert (ratio(30, 20), ratio(30, None), ratio(30, 0)) == ("1.50", "-", "-")


def test_http2_bytes_are_those_of_the_rfcs() -> None:
    assert frame(6, 1, 0, b"12345678") == b"\x00\x00\x08\x06\x01\x00\x00\x00\x00" + b"12345678"
    block = b"\x83\x86\x04\x05/jobs\x01\x09127.0.0.1\x0f\x10\x10application/json\x0f\x0d\x0212"
    assert post_block("/jobs", 12) == block


def test_a_request_tells_its_length() -> None:
    head = b"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
    assert (
        request("POST", "/x", b"{}")
        == head + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_take_stream_finds_ids_wherever_the_bytes_are_cut() -> None:
    lines = b'{"id":"a1","type":"t"}\n\n{"type":"t","id":"b2"}\n'
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (lines[:9], lines[9:30], lines[30:]))
    wire = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
    for cut in range(1, len(wire)):
        took: list[bytes] = []
        lost: list[str] = []
        stream = TakeStream("q", 2, took.extend, lost.append)
        stream.data_received(wire[:cut])
        stream.data_received(wire[cut:])
        assert ([job_id(line) for line in took], lost) == ([b"a1", b"b2"], []), cut


def test_a_round_that_is_shed_is_asked_again_and_any_other_refusal_ends_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader, "AGAIN_S", 0)

    async def asked(*statuses: int) -> int:
        loop = asyncio.get_running_loop()
        spec = SimpleNamespace(limit_s=10)
        takers = Takers(SimpleNamespace(loop=loop, spec=spec, finished=loop.create_future()))
        left = list(statuses)
        caller = SimpleNamespace(send=lambda wire: takers._answered(caller, left.pop(0), b""))
        await takers._ask(caller, b"", 201)
        return len(left)

    assert asyncio.run(asked(503, 503, 201, 201)) == 1
    with pytest.raises(LoadError, match="answered 400"):
        asyncio.run(asked(503, 400))


def test_a_take_names_its_share_of_the_queues() -> None:
    spec = Spec(port=1, mode="work", queue="q", queues=5, streams=2)
    assert [names(spec, 0), names(spec, 1)] == ["q0,q2,q4", "q1,q3"]
    assert names(replace(spec, take_all=True), 0) == ""
    assert names(replace(spec, queues=0), 1) == "q"


def test_jobs_are_spread_over_the_queues_in_turn() -> None:
    wire = bulk(Spec(port=1, mode="bulk", queue="q", queues=3), 2, 3)
    sent = json.loads(wire.partition(b"\r\n\r\n")[2])["jobs"]
    assert [job["queue"] for job in sent] == ["q2", "q0", "q1"]


@pytest.mark.parametrize(
    ("how", "path", "body"),
    [
        ("ack", "/jobs/a1/success", None),
        ("fail", "/jobs/a1/failure", {"message": "connection refused", **ERROR}),
        ("ack-bulk", "/jobs/success", {"ids": ["a1", "b2"]}),
        (
            "fail-bulk",
            "/v1/jobs/failure",
            {
                "failures": [
                    {"id": "a1", "message": "connection refused", **ERROR},
                    {"id": "b2", "message": "connection refused", **ERROR},
                ]
            },
        ),
    ],
)
def test_settlements_are_written_as_the_server_reads_them(how: str, path: str, body: object) -> None:
    head, _, sent = settling(how, [b"a1", b"b2"] if how.endswith("bulk") else [b"a1"]).partition(b"\r\n\r\n")
    assert head.startswith(f"POST {path} HTTP/1.1\r\n".encode())
    assert f"Content-Length: {len(sent)}".encode() in head
    assert (json.loads(sent) if sent else None) == body


def test_a_quick_run_measures_the_real_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--only", "ack-bulk", "--json", "--work-dir", str(tmp_path)])
    row = json.loads(capsys.readouterr().out)["rates"]["ack-bulk"]["anew"]
    assert row["jobs"] == 40_000
    assert row["rate"] > 0
    assert row["refused"] == 0
    assert list(tmp_path.iterdir()) == []


def test_quick_runs_of_the_other_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--only", "fail,cycle,takers", "--json", "--work-dir", str(tmp_path)])
    told = json.loads(capsys.readouterr().out)
    assert told["rates"]["fail"]["anew"]["jobs"] == 5_000
    assert told["rates"]["cycle"]["anew"]["jobs"] == 4_000
    assert told["takers"]["2,000 takers"]["anew"]["jobs"] == 4_000


def test_loads_over_the_work_protocol_are_measured_beside_a_peer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loader is a stand-in that greets the server and says a rate; the servers are real."""
    loader = tmp_path / "loader"
    loader.write_text(
        f"#!{sys.executable}\n"
        "import socket, sys\n"
        "host, port = sys.argv[sys.argv.index('-addr') + 1].split(':')\n"
        "assert socket.create_connection((host, int(port))).recv(3) == b'+HI'\n"
        "print('fwp cycle conns=1 jobs=5 0.01s 500 jobs/s p50=1ms')\n"
    )
    loader.chmod(0o700)
    line = ["--loader", str(loader), "--rounds", "1", "--only", "c1,push", "--work-dir", str(tmp_path)]
    fwp.main(line)
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert [row.split(" | ")[:4] for row in rows] == [
        ["| PUSH + FETCH + ACK, 1 connection", "500", "", "-"],
        ["| PUSH, 50 connections", "500", "", "-"],
    ]
    both = {"c10": {"anew": fwp.Measured(900, 50.4), "faktory": fwp.Measured(600, 200)}}
    assert fwp.table(both).splitlines()[-1] == "| 10 connections | 900 | 600 | 1.50 | 50 / 200 |"


def test_a_loader_that_is_not_there_is_named(tmp_path: Path) -> None:
    line = ["--loader", str(tmp_path / "none"), "--rounds", "1", "--only", "c1", "--work-dir", str(tmp_path)]
    with pytest.raises(SystemExit, match=r"bench\.fwp: .*none"):
        fwp.main(line)


def test_an_unknown_load_over_the_work_protocol_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fwp.main(["--loader", "x", "--only", "c1,test-load"])
    assert "--only test-load: expected some of c1, c10" in capsys.readouterr().err


def test_the_labs_bench_measures_every_load(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    assert lab.main(["--one", "even", "--jobs", "40"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["calls"] == 40 * 25
    assert found["seconds"] > 0
    for name in lab.LOADS:
        assert lab._measured(name, 3, exact=True)["calls"] >= 3


def test_a_peer_is_a_known_name_and_an_interpreter() -> None:
    line = ["--peer", "rq=/opt/rq/python", "--peer", "celery=python3", "--rounds", "3", "--kill"]
    args = tasks.parser().parse_args(line)
    assert args.peer == [("rq", "/opt/rq/python"), ("celery", "python3")]
    assert (args.rounds, args.kill, args.json, args.scale) == (3, True, False, 1.0)


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        ("bull=python", "unknown peer 'bull'"),
        ("anew=python", "unknown peer 'anew'"),
        ("huey", "'huey' is not NAME=PYTHON"),
        ("huey=", "'huey=' is not NAME=PYTHON"),
    ],
)
def test_a_wrong_peer_is_named(peer: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tasks.parser().parse_args(["--peer", peer])
    assert said in capsys.readouterr().err


def test_an_unknown_load_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tasks.parser().parse_args(["--only", "single,doubled"])
    assert "unknown load 'doubled'" in capsys.readouterr().err


def test_the_table_shows_ours_over_theirs() -> None:
    ours = {"single, /s": 3000.0, "bulk, /s": 100_000.0, "kill, s": 0.5}
    theirs = {"single, /s": 1500.0, "kill, s": float("inf")}
    head, *rows = tasks.table({"anew": ours, "other": theirs})
    assert head.split() == ["anew", "other"]
    assert [row.split() for row in rows] == [
        ["single,", "/s", "3,000", "1,500", "(2.00)"],
        ["bulk,", "/s", "100,000", "-"],
        ["kill,", "s", "0.50", "not", "in", "90", "s"],
    ]


def test_a_round_that_lacks_a_figure_is_left_out_of_its_median() -> None:
    assert tasks.medians([{"rate": 1.0}, {"rate": 9.0}, {"rate": 4.0, "ms": 7.0}]) == {"rate": 4.0, "ms": 7.0}


def test_every_peer_has_its_adapter() -> None:
    folder = tasks.HARNESS.parent
    for module, _ in tasks.PEERS.values():
        source = (folder / f"{module}.py").read_text()
        assert "\nWORKER = " in source, module
        assert "def enqueue(" in source or "async def aenqueue(" in source, module


def test_a_few_jobs_of_ours_are_measured_as_a_peers_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks.main(["--scale", "0.01", "--only", "single,drain", "--json", "--folder", str(tmp_path)])
    (figures,) = json.loads(capsys.readouterr().out)["anew"]
    assert set(figures) == {"single enqueue, 1 at once, /s", "drain, one worker, /s"}
    assert min(figures.values()) > 0
    assert list(tmp_path.iterdir()) == []
