"""Memory beyond the device: host and disk slots, the books about them, and the thread that copies.

Tiers are numbered as in frames: 0 device, 1 host (or disk where there is no host), and so on.
"""
