"""One module a command, imported only when the command runs; each has ``run(options) -> exit code``."""
