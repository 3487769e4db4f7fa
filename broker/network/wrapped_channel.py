"""The base class of channels between a request and its connection."""

from .request import Channel, RequestContext


class WrappedChannel:
    """Passes on every call that a subclass does not override. The class is not in request.py,
    because a class compiled by mypyc cannot have interpreted subclasses."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.client = channel.client

    @property
    def is_disconnected(self) -> bool:
        return self.channel.is_disconnected

    def response_ready(self, context: RequestContext) -> None:
        self.channel.response_ready(context)

    def mute(self, context: RequestContext) -> None:
        self.channel.mute(context)

    def throttle(self, ms: int) -> None:
        self.channel.throttle(ms)

    def close_after_responses(self, reason: str) -> None:
        self.channel.close_after_responses(reason)
