import gzip
from pathlib import Path

import pytest

from kvtop.errors import UserError
from kvtop.load.traces import read_trace

DATA = Path(__file__).parents[1] / "data" / "traces"
AZURE, MOONCAKE = DATA / "azure-2023-conv-40.csv", DATA / "mooncake-conversation-60.jsonl"


def test_azure_rows_are_read_with_their_times() -> None:
    trace = read_trace(AZURE)
    assert (trace.format, len(trace.rows)) == ("azure-2023", 40)
    first, second = trace.rows[:2]
    assert (first.at, first.prompt, first.output, first.blocks) == (0.0, 374, 44, None)
    assert second.at == pytest.approx(4.3145, abs=1e-4)


def test_mooncake_rows_are_read_with_their_blocks() -> None:
    trace = read_trace(MOONCAKE)
    assert (trace.format, len(trace.rows)) == ("mooncake", 60)
    assert (trace.rows[0].prompt, trace.rows[0].output) == (6758, 500)
    assert trace.rows[0].blocks == tuple(range(14))
    assert all(row.blocks is not None and row.blocks[0] == 0 for row in trace.rows[:4])


def test_a_compressed_trace_is_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "t.gz"
    packed.write_bytes(gzip.compress(MOONCAKE.read_bytes()))
    assert read_trace(packed).rows == read_trace(MOONCAKE).rows
    assert len(read_trace(packed, most=5).rows) == 5


HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["neither"]),
        (b"a,b,c\n1,2,3\n", ["neither"]),
        (HEAD.encode(), ["no requests"]),
        (f"{HEAD}2023-11-16 18:17:03.9799600,10,10\nyesterday,1,1\n".encode(), ["line 3", "yesterday"]),
        (f"{HEAD}2023-11-16 18:17:03.9799600,-4,10\n".encode(), ["line 2", "ContextTokens"]),
        (f"{HEAD}2023-11-16 18:17:03.9799600,4\n".encode(), ["line 2", "2 columns"]),
        (f'{HEAD}2023-11-16 18:17:03.97,1,1\n"{"x" * 200_000}",1,1\n'.encode(), ["line 3", "field"]),
        (b'{"timestamp": 0, "input_length": 5, "output_length": 1}\n{"timestamp": NaN}\n', ["line 2", "timestamp"]),
        (b'{"timestamp": 0, "input_length": 5.5, "output_length": 1}\n', ["line 1", "input_length"]),
        (b'{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}\n', ["line 1", "hash_ids"]),
        (b'{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}\n', ["line 1", "hash_ids"]),
        (b"{" * 100_000 + b"\n", ["line 1", "JSON"]),
        (b'{"timestamp": \xff}\n', ["UTF-8"]),
        (gzip.compress(MOONCAKE.read_bytes())[:500], ["cut off"]),
    ],
)
def test_a_file_that_is_wrong_is_told_by_its_line(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_trace(path)
    assert refused.value.code == 2
    for word in (str(path), *words):
        assert word in refused.value.message


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_trace(tmp_path / "none")
