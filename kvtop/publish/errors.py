"""What can go wrong when an engine opens its sockets."""


class PublishError(RuntimeError):
    """The engine cannot be published under this name. One sentence that says why and what to do."""
