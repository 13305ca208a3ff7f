"""The channels of the graph: as LangGraph's, but copied quickly.

For each route that is taken LangGraph copies every channel, those that lead to a step included, and most runs take a
route at two steps of three. No value in a channel is changed in place, so that a copy may share it.
"""

from typing import Any, Self

from langgraph.channels import BaseChannel, DeltaChannel, EphemeralValue, LastValue


class Kept(LastValue[Any]):
    """The value written last."""

    __slots__ = ()

    def copy(self) -> Self:
        """See `BaseChannel.copy`."""
        twin = object.__new__(type(self))
        twin.typ, twin.key, twin.value = self.typ, self.key, self.value
        return twin


class Signal(EphemeralValue[Any]):
    """Leads to a step. An empty one is its own copy, for a route's copies are told only what a step wrote to keys."""

    __slots__ = ()

    def copy(self) -> Self:
        """See `BaseChannel.copy`."""
        if not self.is_available():
            return self
        twin = object.__new__(type(self))
        twin.typ, twin.key, twin.value, twin.guard = self.typ, self.key, self.value, self.guard
        return twin


class Deltas(DeltaChannel[Any]):
    """A checkpoint stores what a step wrote, and now and then the whole value: see `DeltaChannel`."""

    __slots__ = ()

    def copy(self) -> Self:
        """See `BaseChannel.copy`."""
        twin = object.__new__(type(self))
        twin.typ, twin.key, twin.value = self.typ, self.key, self.value
        twin.reducer, twin.snapshot_frequency = self.reducer, self.snapshot_frequency
        return twin


def quickly_copied(channel: Any) -> Any:
    """The same channel as one of these, if it is of a kind that there is here; otherwise the channel itself."""
    made: BaseChannel[Any, Any, Any]
    if type(channel) is LastValue:
        made = Kept(channel.typ, channel.key)
    elif type(channel) is EphemeralValue:
        made = Signal(channel.typ, channel.guard)
        made.key = channel.key
    else:
        return channel
    return made
