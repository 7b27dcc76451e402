"""What runs next and who gives way: decisions over requests and blocks. No model, no clock, no I/O."""
