"""The tensors of a file by name, each read when it is asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from torch import Tensor


class LazyTensors(Mapping[str, Tensor]):
    """Names are known without reading; every look-up reads anew, so that nothing is held in memory."""

    def __init__(self, names: Iterable[str], read: Callable[[str], Tensor]) -> None:
        self._names, self._read = dict.fromkeys(names), read

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
