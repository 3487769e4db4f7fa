"""Addresses as clients are told them: `127.0.0.1:34567`."""

import socket


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), 5)


def refuses(address: str) -> bool:
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True
    return False
