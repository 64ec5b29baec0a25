"""`tidelog.open`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, overload

from tidelog.config import StoreConfig
from tidelog.retention import AnyPolicy
from tidelog.store.loading import Adopt, LoadProgress, Paths
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store


@overload
def open(  # noqa: A001
    path: Paths,
    mode: Literal["a"] = "a",
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
    adopt: Adopt = False,
    lock_timeout_s: float = 0,
    *,
    policies: Sequence[AnyPolicy] = (),
    progress: Callable[[LoadProgress], None] | None = None,
) -> Store: ...


@overload
def open(  # noqa: A001
    path: Paths,
    mode: Literal["r"],
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
) -> ReadOnlyStore: ...


def open(  # noqa: A001 - as the standard library's own `open`s are named
    path: Paths,
    mode: Literal["a", "r"] = "a",
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
    adopt: Adopt = False,
    lock_timeout_s: float = 0,
    *,
    policies: Sequence[AnyPolicy] = (),
    progress: Callable[[LoadProgress], None] | None = None,
) -> Store | ReadOnlyStore:
    """Open a data directory, or several that belong together: to write and to look after them, or only to read.

    Mode "a": what is missing or empty is made a store; what Tidelog did not make is refused, unless it is to be adopted: then its topics
    are left alone until their settings are given, or read from a broker's own log (`adopt="cluster-metadata"`). `config` has a broker's
    names; `clock` gives epoch milliseconds. Another owner is waited for as long as `lock_timeout_s`. `policies` say what retention may
    delete besides what Kafka's rules do.

    Mode "r": any directory with partitions in it, a store's, a broker's or a backup's, whoever has it open. No lock is taken and nothing
    is changed. What would be done to it (`explain`, `what_if`) is told by the settings that are found there; `config` has the rest.
    """
    if mode == "r":
        if adopt:
            raise ValueError('mode "r" changes nothing, so it cannot adopt')
        return ReadOnlyStore.open(path, config=config, clock=clock)
    if mode != "a":
        raise ValueError(f"mode must be 'a' or 'r', not {mode!r}")
    return Store.open(path, config=config, clock=clock, adopt=adopt, lock_timeout_s=lock_timeout_s, policies=policies, progress=progress)
