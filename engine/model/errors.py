"""What keeps a model from being served."""


class ModelError(ValueError):
    """The model's files cannot be used; the text says which file, and which field or tensor of it, and why."""
