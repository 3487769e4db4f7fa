"""The SCRAM credentials, ACLs and client quotas of a cluster."""

from collections.abc import Callable, Mapping

from .acls import Acls
from .registry_log import (
    AclDeletedRecord,
    AclRecord,
    ClientQuotaRecord,
    QuotaEntity,
    ScramCredentialRecord,
    SecurityRecord,
)
from .scram import ScramCredential, ScramMechanism

__all__ = ["SecurityState"]


class SecurityState:
    """Only the registry changes this state, by applying its records."""

    def __init__(self) -> None:
        self.acls = Acls()
        self.scram_credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        """By user and mechanism."""
        self.client_quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self.on_client_quota_change: Callable[[QuotaEntity | None], None] = lambda _entity: None
        """Hook: called with the entity whose quotas have changed, or with None if the quotas of any
        entity may have changed."""

    def apply(self, record: SecurityRecord) -> None:
        match record:
            case ClientQuotaRecord(entity, quotas):
                self.client_quotas.pop(entity, None)
                if quotas:
                    self.client_quotas[entity] = quotas
                self.on_client_quota_change(entity)
            case AclRecord(acl):
                self.acls.add(acl)
            case AclDeletedRecord(acl):
                self.acls.remove(acl)
            case ScramCredentialRecord():
                self._apply_scram_credential(record)

    def _apply_scram_credential(self, record: ScramCredentialRecord) -> None:
        credentials = self.scram_credentials.setdefault(record.user, {})
        if record.credential is not None:
            credentials[record.mechanism] = record.credential
            return
        credentials.pop(record.mechanism, None)
        if not credentials:
            del self.scram_credentials[record.user]

    def clear(self) -> None:
        """Clear the state before the log is read again."""
        self.scram_credentials.clear()
        self.client_quotas.clear()
        self.acls.clear()
