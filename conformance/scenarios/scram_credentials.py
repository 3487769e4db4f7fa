"""AlterUserScramCredentials, DescribeUserScramCredentials; delegation tokens without a secret key;
SASL requests on listeners without SASL."""

from typing import Any

from ..scenario import authorized, scenario
from ..script import Script

SHA_256, SHA_512 = 1, 2


def upsertion(
    user: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt"
) -> dict[str, Any]:
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": salt,
        "salted_password": b"x" * 32,
    }


async def alter(s: Script, *upsertions: dict[str, Any], **deletions: tuple[int, ...]) -> None:
    """Send AlterUserScramCredentials. `deletions`: mechanisms, by user name suffix."""
    deleted = [
        {"name": f"{s.group}-{name}", "mechanism": mechanism}
        for name, mechanisms in deletions.items()
        for mechanism in mechanisms
    ]
    values = {"upsertions": upsertions, "deletions": deleted}
    await s.send("AlterUserScramCredentials", 0, values)
    await s.broker.metadata_applied()


async def describe(s: Script, *users: str) -> None:
    values = {"users": [{"name": user} for user in users]}
    await s.send("DescribeUserScramCredentials", 0, values)


@scenario("SCRAM credentials: created, changed, described, deleted")
async def scram_credentials_are_stored(s: Script) -> None:
    user = f"{s.group}-a"
    await describe(s, user)
    await alter(s, upsertion(user))
    await describe(s, user)
    await alter(s, upsertion(user, iterations=16384, salt=b""))
    await describe(s, user)
    await alter(s, a=(SHA_512,))
    await alter(s, a=(SHA_256,))
    await describe(s, user)
    await alter(s, a=(SHA_256,))


@scenario("SCRAM credentials: invalid mechanisms, iterations and names")
async def invalid_scram_credentials_are_rejected(s: Script) -> None:
    user = f"{s.group}-a"
    for iterations in (-1, 0, 4095, 16385):
        await alter(s, upsertion(user, iterations=iterations))
    for mechanism in (-1, 0, 3):
        await alter(s, upsertion(user, mechanism, 1))
        await alter(s, a=(mechanism,))
    await alter(s, upsertion("", 9, 1))
    await describe(s, user)


@scenario("SCRAM credentials: a request may contain each user only once")
async def scram_credentials_of_a_user_are_altered_once(s: Script) -> None:
    user = f"{s.group}-a"
    await alter(s, upsertion(user), upsertion(user))
    await alter(s, upsertion(user), upsertion(user, SHA_512))
    await alter(s, upsertion(user), a=(SHA_256,))
    await alter(s, upsertion(user, iterations=1), upsertion(user, 9))
    await alter(s)
    await alter(s, upsertion(user))
    await alter(s, upsertion(user), a=(SHA_256,))
    await alter(s, a=(SHA_256, SHA_256))
    await alter(s, a=(SHA_256, SHA_512))
    await describe(s, user)
    await describe(s, user, user)


@scenario("SaslHandshake and SaslAuthenticate on a listener without SASL")
async def sasl_is_illegal_without_it(s: Script) -> None:
    for version in range(2):
        await s.send("SaslHandshake", version, {"mechanism": "PLAIN"})
    for version in range(3):
        await s.send("SaslAuthenticate", version, {"auth_bytes": b"\0alice\0secret"})


async def request_tokens(s: Script, client_id: str, *owners: tuple[str, str]) -> None:
    for version in (1, 2, 3):
        values = {"renewers": (), "max_lifetime": 1000}
        await s.send("CreateDelegationToken", version, values, client_id=client_id)
        await s.send("DescribeDelegationToken", version, {"owners": ()}, client_id=client_id)
    for type_, name in owners:
        owner = {"owner_principal_type": type_, "owner_principal_name": name}
        await s.send("CreateDelegationToken", 3, owner, client_id=client_id)
    renewers = ({"principal_type": "Group", "principal_name": "x"},)
    await s.send("CreateDelegationToken", 3, {"renewers": renewers}, client_id=client_id)
    await s.send("DescribeDelegationToken", 3, {"owners": None}, client_id=client_id)
    for version in (1, 2):
        for api in ("RenewDelegationToken", "ExpireDelegationToken"):
            await s.send(api, version, {"hmac": b"x"}, client_id=client_id)


@scenario("Delegation tokens (KIP-48): none for clients that did not authenticate")
async def tokens_of_anonymous_clients(s: Script) -> None:
    await request_tokens(s, "admin", ("User", "bob"))


@authorized("Delegation tokens (KIP-48): disabled without a secret key")
async def tokens_are_disabled(s: Script) -> None:
    owners = (("User", "alice"), ("User", "bob"), ("Group", "bob"))
    await request_tokens(s, "alice", *owners)
    await s.allow("alice", "CREATE_TOKENS", "user User:bob")
    await request_tokens(s, "alice", *owners)
