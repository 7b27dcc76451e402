"""The terminal: palettes by colour depth, pre-encoded strips, the front buffer, the frame clock and its governor.

Everything that depends on what a terminal can do lives here, and `front_buffer` is the one module (with the
internals of Textual's `Strip` in `strip`) that touches Textual's private API. Importing the package itself imports
neither Textual nor numpy, so that a command line can ask `depth` and `environment` first.
"""
