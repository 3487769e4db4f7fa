"""No bytes of a client that has not authenticated reach a handler of another API."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kohort.broker.config.listeners import Listener, SecurityProtocol
from kohort.broker.network.request import RequestContext, Route
from kohort.conformance.wire import encode_frame, request_of
from kohort.protocol.apis import BY_KEY
from support.broker import BrokerHarness
from support.connection import Transport, new_connection
from support.sasl import ScramClient, bearer, plain_token

LISTENER = Listener("SASL_PLAINTEXT", "broker.test", 9092, SecurityProtocol.SASL_PLAINTEXT)
CONFIG = {
    "listeners": "SASL_PLAINTEXT://broker.test:9092",
    "kohort.users": "alice:alice-secret",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "connections.max.reauth.ms": "60000",
}
BEFORE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}


class RecordingInterceptor:
    def __init__(self) -> None:
        self.apis: list[str] = []

    def needs_decoded(self, route: Route) -> bool:
        return False

    def handle(self, context: RequestContext, node: Any) -> None:
        self.apis.append(context.route.api.name)
        context.route.handle(context, node)


def frame(api: str, version: int, **values: Any) -> bytes:
    request = request_of(api, version, values)
    return encode_frame(request, correlation_id=1, client_id="test")


def any_request(api: Any) -> st.SearchStrategy[bytes]:
    versions = st.integers(api.min_version, api.max_version)
    return versions.map(lambda version: frame(api.name, version))


WRONG_TOKENS = st.sampled_from(
    [
        plain_token("alice", "wrong"),
        ScramClient("alice", "wrong").first(),
        b"c=biws,r=abc,p=",
        bearer("a.b.c"),
        b"\x01",
        b"",
    ]
) | st.binary(max_size=20)
FRAMES = st.one_of(
    st.sampled_from(list(BY_KEY.values())).flatmap(any_request),
    st.builds(
        lambda name, version: frame("SaslHandshake", version, mechanism=name),
        st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"]),
        st.integers(0, 1),
    ),
    st.builds(
        lambda token, version: frame("SaslAuthenticate", version, auth_bytes=token),
        WRONG_TOKENS,
        st.integers(0, 2),
    ),
    WRONG_TOKENS.map(lambda token: struct.pack(">i", len(token)) + token),
    st.binary(max_size=20),
)


class Client:
    def __init__(self) -> None:
        self.broker = BrokerHarness(CONFIG)
        self.interceptor = RecordingInterceptor()
        self.transport = Transport()
        node = self.broker.node
        self.connection = new_connection(
            *(self.transport, node, self.broker.callbacks.append),
            client=node.security.new_session(LISTENER, node.clock),
            quotas=node.security.quotas,
            interceptor=self.interceptor,
        )

    def send(self, data: bytes) -> None:
        if not self.transport.is_closed:
            self.connection.data_received(data)
            self.broker.run_loop()


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 2000), max_size=4))
async def test_only_sasl_is_handled_before_the_password(
    frames: list[bytes], cuts: list[int]
) -> None:
    client, data, begin = Client(), b"".join(frames), 0
    for end in [*sorted(cuts), len(data)]:
        client.send(data[begin:end])
        begin = max(begin, end)
    client.broker.advance(1000)
    client.broker.run_loop()
    assert set(client.interceptor.apis) <= BEFORE
    assert client.connection.client.sasl is not None
    assert str(client.connection.client.principal) == "User:ANONYMOUS"


@given(st.lists(FRAMES, max_size=8))
async def test_only_sasl_is_handled_after_the_session_has_expired(frames: list[bytes]) -> None:
    client = Client()
    client.send(frame("SaslHandshake", 1, mechanism="PLAIN"))
    client.send(frame("SaslAuthenticate", 2, auth_bytes=plain_token("alice", "alice-secret")))
    client.send(frame("Metadata", 9))
    assert client.interceptor.apis == ["SaslHandshake", "SaslAuthenticate", "Metadata"]
    client.broker.advance(60_001)
    client.send(b"".join(frames))
    handled = client.interceptor.apis[3:]
    assert set(handled) <= BEFORE
    # ApiVersions is handled only during an exchange, where it is an error that ends the connection.
    assert "ApiVersions" not in handled[:-1]
    assert handled[-1:] != ["ApiVersions"] or handled[-2] == "SaslHandshake"


async def test_a_request_that_is_too_large_closes_the_connection_later() -> None:
    """As after a wrong password, connection.failed.authentication.delay.ms applies."""
    client = Client()
    client.send(struct.pack(">i", 600_000))
    assert not client.transport.is_closed
    client.send(frame("ApiVersions", 0))
    client.broker.advance(99)
    assert not client.transport.is_closed
    client.broker.advance(1)
    assert client.transport.is_closed
    assert client.interceptor.apis == []
