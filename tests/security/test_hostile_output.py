"""What a hostile directory can make a command print, and an export write: names and records are shown, and never obeyed."""

import csv
import json
from pathlib import Path

import pytest
import zstandard

from tests.cli.commands import run
from tests.support.batches import batch_of_payload
from tests.support.small_stores import open_store
from tidelog.errors import PayloadTooLargeError
from tidelog.record import DEFAULT_MAX_DECOMPRESSED_BYTES, read_batches, to_arrow

pytestmark = pytest.mark.leaves

EVIL = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e"
"""Colours, a title for the window, the screen emptied by a character of C1, and the direction of writing turned round."""
CONTROLS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x202E])) - {"\n", "\t"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hostile") / "data"
    with open_store(home) as store:
        topic = store.create_topic("a")
        topic.append(EVIL.encode(), key=EVIL.encode(), headers=[(EVIL, EVIL.encode())])
        topic.append(b'=HYPERLINK("https://example.org")', key=b"@SUM(1)")
    (home / f"{EVIL}-0").mkdir()
    (home / f"{EVIL}-0" / "00000000000000000000.log").write_bytes((home / "a-0" / "00000000000000000000.log").read_bytes())
    (home / f"{EVIL}-1").symlink_to(f"nowhere{EVIL}")
    (home / "a-0" / f"{EVIL}.note").touch()
    return home


COMMANDS = [
    "ls", "ls a", "stats", "verify", "explain", "describe a", "cat a", "tail a --no-follow", "dump --records", "find a --key key",
    "table a", "compact", "report -o page.html", "retain", "repair", "reindex", "groups", "topics", "config show a", "what-if a",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("topic", ["a", EVIL], ids=["a", "evil"])
def test_nothing_changes_a_terminal(command: str, topic: str, data: Path, tmp_path: Path) -> None:
    name, *rest = command.split()
    done = run(name, data, *[{"a": topic, "page.html": str(tmp_path / "page.html")}.get(one, one) for one in rest])
    assert done.stdout + done.stderr
    assert not CONTROLS & set(done.stdout + done.stderr), repr(done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


def test_a_format_prints_bytes_as_they_are(data: Path) -> None:
    """As kcat does: who asks for `%s` wants the bytes, to hand them on."""
    assert EVIL in run("cat", data, "a", "-f", "%s").stdout


def test_json_has_no_control_characters_of_ascii(data: Path) -> None:
    done = run("cat", data, "a", "--json")
    assert not set(map(chr, range(0x20))) - {"\n"} & set(done.stdout)
    assert json.loads(done.stdout.splitlines()[0])["value"] == EVIL


def test_csv_cannot_be_a_formula_unless_text_is_asked_for(data: Path, tmp_path: Path) -> None:
    for bytes_as in ("base64", "utf8"):
        done = run("export", data, "a", "-o", tmp_path / bytes_as, "-f", "csv", "--bytes-as", bytes_as, "--partition-by", "none")
        assert done.returncode == 0, done.stderr
        (path,) = (tmp_path / bytes_as).rglob("*.csv")
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        formulas = [cell for cell in cells if cell.startswith(("=", "@"))]
        assert formulas == ([] if bytes_as == "base64" else ["@SUM(1)", '=HYPERLINK("https://example.org")'])


@pytest.mark.slow
def test_a_bomb_of_some_kilobytes() -> None:
    """Its frames are small, and each stands for 32 MiB: refused at the limit, and not after all of it."""
    frame = zstandard.ZstdCompressor(level=1).compress(bytes(32 << 20))
    frames = frame * (DEFAULT_MAX_DECOMPRESSED_BYTES // (32 << 20) + 1)
    bomb = batch_of_payload(frames, count=1, attributes=4)
    assert len(bomb) < 64 << 10
    with pytest.raises(PayloadTooLargeError, match="max_decompressed_bytes"):
        list(next(iter(read_batches(bomb))))
    with pytest.raises(PayloadTooLargeError, match="max_decompressed_bytes"):
        to_arrow(bomb)
