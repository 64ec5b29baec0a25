"""The bytes of keys in a buffer, of a few keys and of many: as looking at every position; and files that hold no records."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tidelog.disk.disk import OS
from tidelog.store.key_search import Hit, KeySearch
from tidelog.store.side_files import side_content

LETTERS = st.lists(st.sampled_from([b"a", b"b", b"\0"]), max_size=60).map(b"".join)
KEYS = st.lists(st.sampled_from([b"a", b"b", b"\0"]), min_size=1, max_size=7).map(b"".join)


@given(LETTERS, st.sets(KEYS, max_size=4), st.booleans())
def test_where_keys_are(data: bytes, keys: set[bytes], are_many: bool) -> None:
    """A key that begins within itself is found at least once for each stretch of it, and nothing else is."""
    others = {b"never %d" % number for number in range(20)} if are_many else set()
    found = KeySearch(keys | others).hits(data)
    every = {Hit(at, len(key)) for key in keys if len(key) >= 4 for at in range(len(data)) if data[at:].startswith(key)}
    assert set(found) <= every
    covered = [range(hit.position, hit.position + hit.size) for hit in found]
    assert all(any(hit.position in cover and len(cover) == hit.size for cover in covered) for hit in every)
    assert found == sorted(found)


def test_short_keys_are_left_out() -> None:
    assert not KeySearch([b"abc", b""])
    assert KeySearch([b"abc", b"abcd"]).longest == 4


def test_files_of_numbers_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    entries = b"".join((3 * number).to_bytes(4, "big") + (100 * number).to_bytes(4, "big") for number in range(1, 9))
    for name, content, shown in (
        ("00000000000000000000.index", entries, entries),
        ("00000000000000000000.index", entries + bytes(800), entries),
        ("00000000000000000000.index", b"", b""),
        ("00000000000000000000.index", entries + b"a secret key....", None),  # it does not go up
        ("00000000000000000000.index", entries + b"abc", None),
        ("00000000000000000000.index.deleted", entries, None),
        ("00000000000000000000.timeindex", b"text" * 3, b"text" * 3),
        ("00000000000000000000.timeindex", b"zzzz" * 3 + b"text" * 3, None),
        ("00000000000000000000.snapshot", b"no snapshot", None),
        ("leader-epoch-checkpoint", b"0\n1\n0 0\n", b"0\n1\n0 0\n"),
        ("leader-epoch-checkpoint", b"0\n1\nkey\n", None),
        ("cut-00000000000000000000-at-7.log.tidelog", entries, None),
    ):
        (tmp_path / name).write_bytes(content)
        found = side_content(OS, str(tmp_path / name))
        assert (None if found is None else found.rstrip(b"\0")) == (None if shown is None else shown.rstrip(b"\0")), name
