"""`tidelog produce`: lines and JSON lines in, the same bytes out."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import tidelog
from tests.cli.commands import COMMAND, run, run_process
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store, tree_of
from tidelog.inspection import verify_log_directory
from tidelog.record import read_batches

TIME = 1_700_000_000_000


def records(store: Path, topic: str) -> list[tuple[object, ...]]:
    with tidelog.open(store, "r") as reader:
        return [
            (one.partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers)
            for one in reader.topic(topic).read(isolation="log_end")
        ]


def test_what_cat_prints_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as made:
        topic = made.create_topic("emails", 3)
        shapes: list[tuple[bytes | None, bytes | None]] = [
            (None, None), (b"", b""), (b"k", b"plain"), (b"\xff\x00", bytes(range(256))),
            ("ü".encode(), "zwei\nZeilen\t\"'\\ \u2028".encode()),
            (b"k", b'{"base64": "x"}'), (b"null", b"null"), (b"k", b"\xed\xa0\x80"), (b"k", b"\x7f\x1b[31m"),
        ]  # fmt: skip
        headers = [(), (("h", b""), ("h", None), ("ü", b"\xff")), (("", b"x"),)]
        for number, (key, value) in enumerate(shapes * 3):
            topic.append(value, key=key, headers=headers[number % 3], timestamp_ms=TIME + number, partition=number % 3)
    printed = run("cat", tmp_path / "a", "emails", "--json")
    assert printed.returncode == 0
    done = run("produce", tmp_path / "b", "emails", "--json", "--create", "--partitions", "3", stdin=printed.stdout.encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "27 records appended to emails\n")
    assert records(tmp_path / "b", "emails") == records(tmp_path / "a", "emails")
    assert run("cat", tmp_path / "b", "emails", "--json").stdout == printed.stdout


def test_through_a_real_pipe(tmp_path: Path) -> None:
    script = f"printf 'a:1\\nb:2\\n' | {COMMAND} produce {tmp_path}/s emails --create -K : && {COMMAND} cat {tmp_path}/s emails --json | {COMMAND} -q produce {tmp_path}/s copy --create --json"  # noqa: E501
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "2 records appended to emails\n")
    assert records(tmp_path / "s", "copy") == records(tmp_path / "s", "emails")


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        ([], b"one\n\ntwo\r\nthree", [(None, b"one"), (None, b""), (None, b"two\r"), (None, b"three")]),
        (["-K", ":"], b"a:1\nb:2:3\n:\n", [(b"a", b"1"), (b"b", b"2:3"), (b"", b"")]),
        (["-K", ":", "-Z"], b"a:\n:1\n", [(b"a", None), (None, b"1")]),
        (["-K", r"\t"], b"a\t\xff\n", [(b"a", b"\xff")]),
        (["--compression", "zstd"], b"x\n" * 3, [(None, b"x")] * 3),
        ([], b"", []),
    ],
)
def test_lines(arguments: list[str], stdin: bytes, expected: list[tuple[object, object]], tmp_path: Path) -> None:
    done = run("produce", tmp_path / "s", "t", "--create", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert [one[3:5] for one in records(tmp_path / "s", "t")] == expected


def test_headers_partition_and_compression(tmp_path: Path) -> None:
    run("produce", tmp_path / "s", "t", "--create", "--partitions", "3", "-p", "2", "--header", "a=1", "--compression", "lz4", stdin=b"x\n")
    assert [(one[0], one[5]) for one in records(tmp_path / "s", "t")] == [(2, (("a", b"1"),))]
    dumped = run("dump", tmp_path / "s" / "t-2", "--json").stdout
    assert [json.loads(line)["compression"] for line in dumped.splitlines() if '"batch"' in line] == ["lz4"]
    lines = b'{"key": "k", "value": "v", "partition": 1}\n'
    run("produce", tmp_path / "s", "t", "--json", "--repartition", stdin=lines * 4)
    run("produce", tmp_path / "s", "t", "--json", stdin=lines)
    places = [one[0] for one in records(tmp_path / "s", "t")]
    assert places.count(1) in (1, 5)
    assert len(set(places)) <= 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "no JSON"),
        (b"3", "no record"),
        (b'{"type": "batch"}', "no record"),
        (b'{"key": "k"}', "without value"),
        (b'{"value": 3}', "value is 3"),
        (b'{"value": {"base64": "?"}}', "value: "),
        (b'{"value": "x", "headers": [["a"]]}', "headers are no list"),
        (b'{"value": "x", "timestamp_ms": "now"}', "timestamp_ms is no whole number"),
        (b'{"value": "x", "timestamp_ms": -5}', "timestamp_ms is not from 0 to 9223372036854775807: -5"),
        (b'{"value": "x", "timestamp_ms": 9223372036854775808}', "timestamp_ms is not from 0 to"),
        (b'{"value": "x", "kind": "offset_commit"}', "cat --raw"),
        (b'{"value": "\\ud800"}', "value: "),
    ],
)
def test_a_wrong_line_is_named_and_those_before_it_are_in(line: bytes, why: str, tmp_path: Path) -> None:
    done = run(
        "produce", tmp_path / "s", "t", "--create", "--json", stdin=b'{"value": "1"}\n{"value": "2"}\n' + line + b'\n{"value": "4"}\n'
    )
    assert (done.returncode, done.stdout) == (2, "")
    said, error = done.stderr.splitlines()[:2]
    assert said == "2 records appended to t before it ended"
    assert error.startswith("error: line 3: ")
    assert why in error
    assert [one[4] for one in records(tmp_path / "s", "t")] == [b"1", b"2"]


def test_what_the_log_refuses(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t", 1, {"cleanup.policy": "compact"})
    done = run("produce", tmp_path / "s", "t", "-K", ":", "-Z", stdin=b"a:1\n:2\n")
    assert done.returncode == 3
    assert done.stderr.startswith("1 record appended to t before it ended\nerror: ")
    assert "hint: record 2 of the input" in done.stderr
    assert len(records(tmp_path / "s", "t")) == 1


def test_a_key_separator_that_is_missing(tmp_path: Path) -> None:
    done = run("produce", tmp_path / "s", "t", "--create", "-K", ":", stdin=b"a:1\nb\n")
    assert (done.returncode, done.stderr.splitlines()[1]) == (2, "error: line 2: no key separator ':' in it")


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["{home}/none", "t"], 2, "no such directory"),
        (["{home}", "t"], 2, "no store is here"),
        (["{home}/s", "nope"], 2, "no topic 'nope'"),
        (["{home}/s", "t", "--json", "-K", ":"], 2, "about plain lines"),
        (["{home}/s", "t", "--partitions", "2"], 2, "about a topic that is made"),
        (["{home}/s", "t", "-p", "7"], 2, "no partition 7"),
        (["{home}/s", "t", "--compression", "rar"], 2, "rar"),
        ([str(GOLDEN / "broker" / "data"), "emails"], 3, "not a store of Tidelog"),
        ([str(GOLDEN / "broker" / "data"), "emails", "--create"], 3, "not made by Tidelog"),
    ],
)
def test_wrong_use_changes_nothing(arguments: list[str], code: int, what: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    if "{home}/s" in arguments:
        with open_store(home / "s") as made:
            made.create_topic("t")
    broker = tree_of(GOLDEN / "broker" / "data")
    done = run("produce", *(argument.format(home=home) for argument in arguments), stdin=b"x\n")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert what in done.stderr
    assert tree_of(GOLDEN / "broker" / "data") == broker
    if not (home / "s").exists():
        assert list(home.iterdir()) == []


def test_a_store_that_somebody_has_is_not_touched(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "s") as made:
        made.create_topic("t")
        done = run_process("produce", tmp_path / "s", "t")
        assert (done.returncode, done.stdout) == (3, "")
        assert "locked by" in done.stderr
    assert records(tmp_path / "s", "t") == []


def test_an_interrupt_leaves_nothing_half_done(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "produce", tmp_path / "s", "t", "--create"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        log = tmp_path / "s" / "t-0" / f"{0:020}.log"
        while not log.exists() or sum(batch.count for batch in read_batches(log.read_bytes())) < 2:  # in one batch, or in two
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, b"", b"2 records appended to t before it ended\n")
    assert [one[4] for one in records(tmp_path / "s", "t")] == [b"one", b"two"]
    assert [finding for finding in verify_log_directory(tmp_path / "s") if finding.severity != "note"] == []
    assert not (tmp_path / "s" / "t-0" / "flushed-end.tidelog").exists()


def test_headers_may_have_the_same_name(tmp_path: Path) -> None:
    run("produce", tmp_path / "s", "t", "--create", "--header", "a=1", "--header", "a=2", stdin=b"x\n")
    assert [one[5] for one in records(tmp_path / "s", "t")] == [(("a", b"1"), ("a", b"2"))]


def test_settings_are_written_as_people_do(tmp_path: Path) -> None:
    assert run("produce", tmp_path / "s", "t", "--create", "--config", "retention.ms=7d", stdin=b"x\n").returncode == 0
    with tidelog.open(tmp_path / "s", "r") as reader:
        assert reader.settings("t").config.retention_ms == 7 * 86_400_000
    assert "retention.bytes  1024" in run("describe", tmp_path / "s", "t", "--config", "retention.bytes=1KiB").stdout


def test_a_partition_that_is_not_there(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t")
    done = run("produce", tmp_path / "s", "t", "--json", stdin=b'{"value": "x", "partition": 7}\n')
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "hint: --repartition chooses partitions anew, by key"
    assert run("produce", tmp_path / "s", "t", "-p", "7", stdin=b"x\n").stderr.splitlines()[-1] == "hint: -p names one that is there"
    assert run("produce", tmp_path / "s", "tt", stdin=b"x\n").stderr.splitlines()[-1].endswith("; --create makes it")


def test_a_topic_that_is_there_stays_as_it_is_and_that_is_said(tmp_path: Path) -> None:
    assert run("produce", tmp_path / "s", "t", "--create", stdin=b"x\n").stderr == "1 record appended to t\n"
    for options in (["--partitions", "8"], ["--config", "retention.ms=1"]):
        done = run("produce", tmp_path / "s", "t", "--create", *options, stdin=b"x\n")
        assert done.stderr.splitlines() == [
            "t is there already, and stays as it is: --partitions and --config are about a topic that is made",
            "1 record appended to t",
        ]
    assert run("produce", tmp_path / "s", "t", "--create", stdin=b"x\n").stderr == "1 record appended to t\n"


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize("form", ["%s", '{"value": %s}', '{"value": "x", "timestamp_ms": %s}'])
def test_json_that_is_nested_without_end_is_a_wrong_line(form: str, depth: int, tmp_path: Path) -> None:
    line = form % ("[" * depth + "]" * depth)
    done = run("produce", tmp_path / "s", "t", "--create", "--json", stdin=line.encode() + b"\n")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[1].startswith("error: line 1: ")
