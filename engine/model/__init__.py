"""The decoder and what it runs on: weights, tokenizer, KV tensors, attention backends, sampler."""
