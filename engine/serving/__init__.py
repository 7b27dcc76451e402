"""The engine as a server: the loop, commands, and what viewers are told."""
