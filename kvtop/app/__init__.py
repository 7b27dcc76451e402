"""The screen of one engine: feed, panels, dialogs, commands back."""
