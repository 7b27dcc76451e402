"""The load generator: requests to any OpenAI-compatible server, when they were meant to come, and what came of them."""
