"""The screens: an engine's (feed, panels, dialogs, commands back), and the app that holds them."""
