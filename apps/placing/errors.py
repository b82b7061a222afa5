"""What can be refused about a placement policy."""


class InvalidPlacement(Exception):
    """A value that cannot stand in a placement policy; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
