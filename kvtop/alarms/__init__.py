"""What is wrong with an engine, by name: rules over its state, and a watch that neither flaps nor fires on stale facts."""

from kvtop.alarms.limits import Limits, Threshold
from kvtop.alarms.outcome import Finding, Severity, Victim
from kvtop.alarms.report import Check, Report
from kvtop.alarms.settings import Settings
from kvtop.alarms.watch import Change, Watch

__all__ = [
    "Change",
    "Check",
    "Finding",
    "Limits",
    "Report",
    "Settings",
    "Severity",
    "Threshold",
    "Victim",
    "Watch",
]
