"""The snapshot: one JSON document of what an engine is doing, and how it comes into files. The picture is the app's."""
