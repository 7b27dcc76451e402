"""An engine's present state as one document, and its files."""
