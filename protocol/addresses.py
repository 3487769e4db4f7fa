"""Where somebody listens, as people and clients write it."""


def address(host: str, port: int | str) -> str:
    """`host:port`; the colons of an IPv6 number are kept apart by brackets (RFC 3986)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
