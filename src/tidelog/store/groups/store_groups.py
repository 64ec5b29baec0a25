"""The part of a store that has to do with groups: consumers, positions, lag. The same for one that is only read."""

from abc import abstractmethod
from collections.abc import Iterable

from tidelog.errors import InvalidGroupError
from tidelog.log.log_reading import Isolation
from tidelog.store.groups.consumer import Consumer, Reset, check_topics
from tidelog.store.groups.fetching import ConsumerSettings
from tidelog.store.groups.group import Group
from tidelog.store.groups.offset_reset import parse_reset
from tidelog.store.groups.position import check_group
from tidelog.store.groups.positions import Positions
from tidelog.store.groups.source import Source


class StoreGroups:
    """What both kinds of store have."""

    @abstractmethod
    def _source(self) -> Source:
        """The store, as groups see it."""

    def consumer(
        self,
        group: str,
        topics: str | Iterable[str],
        *,
        auto_offset_reset: Reset = "earliest",
        isolation: Isolation = "committed",
        follow: bool = False,
        positions: "StoreGroups | None" = None,
    ) -> Consumer:
        """The member of a group: it reads some topics, each partition from where the group has committed last.

        A group has one member in a process: another one raises `GroupInUseError` until the first is closed. Where nothing was committed,
        or what was is out of range, it begins as `auto_offset_reset` says: "earliest", "latest", "none", which raises, or so long ago,
        "by_duration:PT1H" or a timedelta. With `follow`, iterating waits for what comes. `positions` is another store, that keeps the
        positions.
        """
        name, wanted = check_group(group), check_topics(topics)
        settings = ConsumerSettings(parse_reset(auto_offset_reset), isolation, follow).check()
        return Consumer(self._source(), self._keeper(positions), name, wanted, settings)

    def groups(self) -> list[Group]:
        """All groups that something is known of, by name."""
        source = self._source()
        source.check()
        return [Group(source, source, name) for name in sorted(Positions(source).kinds())]

    def group(self, name: str, *, positions: "StoreGroups | None" = None) -> Group:
        """A group by its name, whether something is known of it or not. `positions` is another store, that keeps its positions."""
        source = self._source()
        source.check()
        return Group(source, self._keeper(positions), check_group(name))

    def _keeper(self, positions: "StoreGroups | None") -> Source:
        if positions is None:
            return self._source()
        if not isinstance(positions, StoreGroups):
            raise InvalidGroupError("nothing that could keep positions", expected="a store", found=repr(positions))
        keeper = positions._source()
        keeper.owned()  # one that is only read would keep nothing
        return keeper
