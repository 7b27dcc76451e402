"""The OpenAI-compatible HTTP server: a thread of its own beside the engine's, which it asks as everybody does, by
`engine.serving.server.Server.submit`."""
