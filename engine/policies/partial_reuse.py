"""The axis ``partial_reuse``: whether a prefix hit goes on into a block of which only the first tokens are the same."""

PARTIAL_REUSES = {
    "off": "A prefix is found in complete blocks only.",
    "copy": "Where the complete blocks end, the tokens that the best cached block has in common with the request are "
    "copied into a block of its own, and not computed.",
    "exclusive": "Where the complete blocks end, the request goes on in the cached block itself that begins like its next "
    "one, if nobody uses it: without a copy, and lost to the cache.",
}
