"""What a user may set once and for all: read from a file, the environment and the command line, checked, put together."""
