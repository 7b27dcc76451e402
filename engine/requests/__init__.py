"""A request: its tokens and limits, its beams and hypotheses, and what of it goes into a batch."""
