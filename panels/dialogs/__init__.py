"""Dialogs: each asks first, Cancel being the default, says what will happen to whom, then what did."""
