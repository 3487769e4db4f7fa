"""The broker's own certificate authority, for listeners without a configured certificate and for
test clients. It needs the extra `security`."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

CA_FILE: Final = "ca.pem"
KEY_FILE: Final = "ca-key.pem"

VALID_FOR: Final = timedelta(days=397)
"""Certificates are issued at each start. Some clients reject server certificates that are valid for
longer."""
# Clients whose clocks are slow or use another time zone must also accept a new certificate.
_VALID_BEFORE: Final = timedelta(days=1)


class CertificateAuthority:
    """An authority in PEM files, in a folder that only its owner can read: `ca.pem`, which clients
    trust, and its key `ca-key.pem`. Both files are kept for the next start."""

    def __init__(self, folder: Path) -> None:
        """Load the authority of this folder, or create one. Raises OSError, ValueError, and
        ImportError without the extra `security`."""
        import trustme

        self._folder = folder
        self.ca_file = folder / CA_FILE
        key_file = folder / KEY_FILE
        if self.ca_file.exists() and key_file.exists():
            self._ca = trustme.CA.from_pem(self.ca_file.read_bytes(), key_file.read_bytes())
            return
        self._ca = trustme.CA(organization_name="kohort", organization_unit_name="test broker")
        folder.mkdir(0o700, exist_ok=True)
        _write(key_file, self._ca.private_key_pem.bytes())
        _write(self.ca_file, self._ca.cert_pem.bytes())

    def issue(
        self,
        file: str,
        names: Iterable[str],
        *,
        common_name: str | None = None,
        until: datetime | None = None,
    ) -> Path:
        """Write a private key (PKCS#8) and its certificate to a file in the folder, and return the
        path. `names` are DNS names and addresses. `until` is the end of the certificate's validity,
        by default VALID_FOR from now."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )

        now = datetime.now(UTC)
        until = now + VALID_FOR if until is None else until
        issued = self._ca.issue_cert(
            *names,
            common_name=common_name,
            organization_name="kohort",
            organization_unit_name="test broker",
            not_before=min(now, until) - _VALID_BEFORE,
            not_after=until,
        )
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self._folder / file
        _write(path, pkcs8 + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path


def _write(path: Path, content: bytes) -> None:
    """Replace a file with one that only its owner can read."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(content)
