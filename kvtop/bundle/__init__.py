"""The incident bundle: one file with the minutes around a moment, for a reviewer who cannot reach the host."""
