"""The panels of an engine's screen: this one list is all that a new one is entered in.

What else is to be known of a panel stands in its own file: its id and digit key, its actions, where it goes and how many
rows it needs (`panels.layout`), and what it draws (`panels.panel.Panel.update`). The screen, the keys, the help, the
footer and the layout take it from there. The order is that of Tab, and from top to bottom that of a column.
"""

from panels.block_map import BlockMapPanel
from panels.capacity import CapacityPanel
from panels.events import EventsPanel
from panels.header import HeaderPanel
from panels.latency import LatencyPanel
from panels.panel import Panel
from panels.policies import PoliciesPanel
from panels.queue import QueuePanel
from panels.requests import RequestsPanel
from panels.scheduler import SchedulerPanel
from panels.tiers import TiersPanel

PANELS: tuple[type[Panel], ...] = (
    HeaderPanel,
    CapacityPanel,
    BlockMapPanel,
    RequestsPanel,
    QueuePanel,
    SchedulerPanel,
    TiersPanel,
    LatencyPanel,
    PoliciesPanel,
    EventsPanel,
)
