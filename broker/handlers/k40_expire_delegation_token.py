"""ExpireDelegationToken (key 40, KIP-48), with the same response as RenewDelegationToken. v2
flexible."""

from .k39_renew_delegation_token import handle as handle
