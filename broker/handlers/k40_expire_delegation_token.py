"""ExpireDelegationToken (key 40, KIP-48), whose response is that of RenewDelegationToken. v2
flexible."""

from .k39_renew_delegation_token import handle as handle
