"""What models are stored in: GGUF files, and folders as Hugging Face writes them."""
