"""The axis ``compaction``: whether blocks are moved together without a command."""

COMPACTIONS = {
    "off": "Blocks stay where they are, but for the command compact.",
    "when_idle": "While no request is live, blocks are moved to the lowest free places.",
    "continuous": "In every iteration blocks are moved to the lowest free places.",
}
