"""Element types of the KV cache, as choices: what they are is in `engine.model.paged_tensor`, which needs torch."""

KV_DTYPES: dict[str, str] = {
    "float32": "Four bytes an element.",
    "bfloat16": "Two bytes an element: the range of float32 with 8 bits of precision.",
    "float16": "Two bytes an element, 11 bits of precision, magnitudes up to 65,504.",
    "int8": "One byte an element and a float32 scale for each KV head and token.",
    "fp8_e4m3": "One byte an element, 4 bits of precision, magnitudes up to 448, no scales.",
}
