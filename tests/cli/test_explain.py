"""`tidelog explain` and `tidelog what-if`: sentences, tables, where settings are from."""

from pathlib import Path

import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.logs import FakeClock
from tests.support.small_stores import open_store
from tidelog.cli.options import setting_value
from tidelog.cli.outlook_words import segment_words
from tidelog.config import LogConfig
from tidelog.retention import LogFacts, SegmentFacts, outlook

BROKER = GOLDEN / "broker" / "data"
TIME = 1_700_000_000_000
HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three segments a day apart, kept for a week; a compacted topic; one that is kept for ever."""
    path = tmp_path / "store"
    with open_store(path, clock=FakeClock(TIME + 9 * DAY)) as made:
        topic = made.create_topic("emails", 1, {"retention.ms": 7 * DAY})
        for number in range(3):
            topic.append(b"x" * 10, key=b"k", timestamp_ms=TIME + number * DAY)
            if number < 2:
                topic.log(0).roll()
        profiles = made.create_topic("profiles", 1, {"cleanup.policy": "compact"})
        for _ in range(2):
            profiles.append(b"x", key=b"k", timestamp_ms=TIME)
            profiles.log(0).roll()
        made.create_topic("forever").append(b"x", timestamp_ms=TIME)
    return path


def words(now_ms: int, high_watermark: int = 30, **config: object) -> list[str]:
    """About a log of three segments of a hundred bytes, a day apart, the last of them active."""
    segments = [SegmentFacts(10 * number, 10 * number + 10, 100, TIME + number * DAY, number == 2) for number in range(3)]
    settings = LogConfig.of({name.replace("_", "."): value for name, value in config.items()})
    return [segment_words(one, settings, now_ms) for one in outlook(LogFacts(segments, 0, high_watermark), settings, now_ms)]


def test_by_age() -> None:
    assert words(TIME + 3 * DAY + 4 * HOUR, retention_ms=7 * DAY) == [
        "kept: newest record is 3 d 4 h old, retention.ms is 7 d; goes in 3 d 20 h",
        "kept: newest record is 2 d 4 h old, retention.ms is 7 d; goes in 4 d 20 h",
        "kept: newest record is 1 d 4 h old, retention.ms is 7 d; goes in 5 d 20 h if nothing is appended until then",
    ]
    assert words(TIME + 8 * DAY, retention_ms=7 * DAY)[0] == "goes now: newest record is 8 d old, retention.ms is 7 d"
    assert words(TIME - DAY, retention_ms=DAY)[0] == "kept: newest record is dated 1 d in the future, retention.ms is 1 d; goes in 2 d"


def test_by_size_and_both() -> None:
    assert words(TIME, retention_bytes=250, retention_ms=-1) == [
        "kept: retention.bytes is 250 B; goes when 50 B more arrive (retention.bytes is 250 B)",
        "kept: retention.bytes is 250 B; goes when 150 B more arrive (retention.bytes is 250 B)",
        "kept: retention.bytes is 250 B; goes when 250 B more arrive (retention.bytes is 250 B)",
    ]
    assert words(TIME, retention_bytes=100, retention_ms=-1)[:2] == [
        "goes now: the log is larger than retention.bytes, which is 100 B",
        "goes now: the log is larger than retention.bytes, which is 100 B",
    ]
    both = words(TIME, retention_bytes=250, retention_ms=DAY)[0]
    assert both == (
        "kept: newest record is 0 ms old, retention.ms is 1 d; goes when 50 B more arrive (retention.bytes is 250 B); or goes in 1 d"
    )


def test_what_no_rule_lets_go() -> None:
    assert words(TIME, retention_ms=-1)[0] == "kept for ever: retention.ms is -1 and retention.bytes is -1"
    assert words(TIME, cleanup_policy="compact")[0] == "kept: cleanup.policy is compact, so nothing goes by age or size"
    assert words(TIME + 99 * DAY, high_watermark=5, retention_ms=DAY)[0] == (
        "kept: it reaches above the high watermark, which is 5; goes when that is no more so"
    )


def test_a_topic_as_a_table(store: Path) -> None:
    done = run("explain", store, "emails", "--now", f"@{TIME + 3 * DAY + 4 * HOUR}", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "emails\n"
        "  tidelog.json: retention.ms=604800000 (7 d)\n"
        "  default: cleanup.policy=delete, retention.bytes=-1, segment.bytes=1073741824 (1.0 GiB), segment.ms=604800000 (7 d)\n"
        "PARTITION  BASE OFFSET  NEXT  SIZE  NEWEST RECORD             WHAT BECOMES OF IT\n"
        "        0            0     1  79 B  2023-11-14T22:13:20.000Z  kept: newest record is 3 d 4 h old, retention.ms is 7 d; goes in 3 d 20 h\n"  # noqa: E501
        "        0            1     2  79 B  2023-11-15T22:13:20.000Z  kept: newest record is 2 d 4 h old, retention.ms is 7 d; goes in 4 d 20 h\n"  # noqa: E501
        "        0            2     3  79 B  2023-11-16T22:13:20.000Z  kept: newest record is 1 d 4 h old, retention.ms is 7 d; goes in 5 d 20 h if nothing is appended until then\n"  # noqa: E501
    )


def test_all_topics_and_compaction(store: Path) -> None:
    text = run("explain", store, "--now", f"@{TIME}").stdout
    assert [line for line in text.splitlines() if line.isalpha()] == ["emails", "forever", "profiles"]
    assert "partition 0: would be compacted, its dirty ratio 1.000 is above min.cleanable.dirty.ratio=0.5" in text
    assert "kept for ever" in text


def test_json_has_the_facts(store: Path) -> None:
    done = objects("explain", store, "emails", "-q", "--now", f"@{TIME + 8 * DAY}")
    settings = {row["name"]: (row["value"], row["source"], row["topic"]) for row in done if row["type"] == "setting"}
    assert settings["retention.ms"] == (str(7 * DAY), "tidelog.json", "emails")
    [partition] = [row for row in done if row["type"] == "partition"]
    assert (partition["left_alone"], partition["would_be_compacted"], partition["now_ms"]) == (None, False, TIME + 8 * DAY)
    segments = [row for row in done if row["type"] == "segment"]
    assert [(row["goes_by"], row["goes_at_ms"]) for row in segments] == [
        ("time", None),
        (None, TIME + 8 * DAY + 1),
        (None, TIME + 9 * DAY + 1),
    ]
    assert objects("explain", store / "emails-0", "-q", "--now", f"@{TIME + 8 * DAY}") == done


@pytest.mark.leaves
def test_a_problem_is_exit_code_1(store: Path) -> None:
    done = run("explain", store, "emails", "--now", f"@{TIME - 5 * DAY}")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == (
        "problem: emails-0: segment 0 has a record dated 2023-11-14T22:13:20.000Z, in the future: it and those behind it stay"
    )
    for file in (store / "emails-0").glob("*.log"):
        file.unlink()
    done = run("explain", store, "emails", "--json")
    assert done.returncode == 1
    assert '"type": "problem"' in done.stdout.splitlines()[-1]


def test_a_broker_and_where_its_settings_are_from() -> None:
    text = run("explain", BROKER, "emails").stdout
    assert "  __cluster_metadata: retention.ms=172800000 (2 d), segment.bytes=1048576 (1.0 MiB)" in text
    assert "  default, assumed: cleanup.policy=delete, retention.bytes=-1" in text
    given = run("explain", BROKER, "emails", "--config", "retention.bytes=1G").stdout
    assert "  given: retention.bytes=1073741824 (1.0 GiB)" in given


def test_what_if(store: Path) -> None:
    now = ["--now", f"@{TIME + 3 * DAY}", "-q"]
    done = run("what-if", store, "emails", "--config", "retention.ms=1d", "--config", "retention.ms=30d", *now)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[3:] == [
        "IF                       SEGMENTS GO  BYTES GO  OFFSETS GO  BYTES STAY  OLDEST THAT STAYS         PARTITIONS COMPACTED",
        "as it is                           0       0 B           0       237 B  2023-11-14T22:13:20.000Z                     0",
        "retention.ms=86400000              2     158 B           2        79 B  2023-11-16T22:13:20.000Z                     0",
        "retention.ms=2592000000            0       0 B           0       237 B  2023-11-14T22:13:20.000Z                     0",
        "with retention.ms=86400000: 2 segments more go now, 158 B; 79 B stay",
        "with retention.ms=2592000000: nothing more goes than as it is",
    ]
    rows = [row for row in objects("what-if", store, "emails", "--config", "retention.ms=1d", "--exact", *now) if row["type"] == "what_if"]
    assert [(row["config"], row["segments"], row["records"], row["counted_by"]) for row in rows] == [
        ({}, 0, 0, "batches"),
        ({"retention.ms": str(DAY)}, 2, 2, "batches"),
    ]
    compacted = objects("what-if", store, "profiles", "--config", "min.cleanable.dirty.ratio=1.0", "-q")
    assert [row["compacted_partitions"] for row in compacted if row["type"] == "what_if"] == [1, 0]


def test_what_if_is_a_grid(store: Path) -> None:
    arguments = [
        "--config",
        "retention.ms=1d",
        "--config",
        "retention.ms=2d",
        "--config",
        "retention.bytes=1k",
        "--config",
        "retention.bytes=-1",
    ]
    rows = [row for row in objects("what-if", store, "emails", *arguments) if row["type"] == "what_if"]
    assert [row["settings"] for row in rows[1:]] == [
        f"retention.ms={ms} retention.bytes={size}" for ms in (DAY, 2 * DAY) for size in (1024, -1)
    ]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["what-if", "{store}", "emails"], "what if what?"),
        (["what-if", "{store}"], "which topic?"),
        (["what-if", "{store}", "emails", "--config", "retention.ms=soon"], "bad value of retention.ms"),
        (["what-if", "{store}", "emails", "--config", "retention.hours=1"], "retention.hours"),
        (["what-if", "{store}", "nope", "--config", "retention.ms=1"], "no topic 'nope'"),
        (["explain", "{store}", "nope"], "no topic 'nope'"),
        (["explain", "{store}/nope"], "no such directory"),
        (["explain", "{store}/emails-0", "profiles"], "the directory of one partition"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    done = run(*(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_no_limit_is_a_word(store: Path) -> None:
    shown = run("explain", store, "profiles").stdout
    assert "max.compaction.lag.ms=unlimited" in shown
    assert "9223372036854775807" not in shown
    given = run("explain", store, "profiles", "--config", "max.compaction.lag.ms=5d").stdout
    assert "unlimited" not in given
    assert setting_value("max.compaction.lag.ms", "unlimited") == str(2**63 - 1)
    assert setting_value("retention.bytes", "unlimited") == "-1"
    rows = objects("what-if", store, "emails", "--config", "retention.ms=unlimited", "--config", "retention.ms=1d")
    assert [row["settings"] for row in rows if row["type"] == "what_if"][1:] == ["retention.ms=-1", f"retention.ms={DAY}"]


def test_headings_stand_apart(store: Path) -> None:
    lines = run("explain", store).stdout.split("\n")
    assert [lines[lines.index(name) - 1] for name in ("forever", "profiles")] == ["", ""]
    assert lines[0] == "emails"
    described = run("describe", store, "emails").stdout.split("\n")
    assert described[0] == "emails"
    assert [described[described.index(name) - 1] for name in ("Settings that are no defaults", "Partitions")] == ["", ""]
