"""What memory there is for the engine, and what it takes of it."""
