"""What drives the demo: mixes of requests that arrive at random with a seed."""
