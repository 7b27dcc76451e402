"""KV memory on the device: blocks, their owners, the prefix index, and what moves or keeps them."""
