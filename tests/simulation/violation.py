"""What is found when a promise is broken."""


class Violation(AssertionError):
    """Begins with the promise that was broken, I1 to I9 (invariants.py)."""

    @property
    def promise(self) -> str:
        return str(self).partition(":")[0]
