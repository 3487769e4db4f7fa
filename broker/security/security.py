"""What all nodes share to decide who may do what, and how much."""

from dataclasses import dataclass

from .quotas import ClientQuotas

__all__ = ["Security"]


@dataclass(slots=True)
class Security:
    quotas: ClientQuotas
