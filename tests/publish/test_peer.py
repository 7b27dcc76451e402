"""One connection as its server's thread sees it, turn by turn."""

import selectors
import socket

from kvtop.publish.peer import READ_EVERY, Peer


def test_a_peer_that_is_not_watched_is_always_due_again() -> None:
    """Its time to be read may come between the moment it is left unwatched and the one that says how long to sleep: then
    nothing would wake the server for it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(ours, b"hello\n")
        theirs.sendall(b'{"type":"keyframe"}\n')
        peer.receive(10.0)
        peer.work(10.0, lambda _: None)
        assert not peer.wants_read(10.0), "it was read from just now"
        for later in (0.0, READ_EVERY / 2, READ_EVERY, 2 * READ_EVERY):
            assert peer.next_at(10.0 + later) == 10.0 + READ_EVERY
        assert peer.wants_read(10.0 + READ_EVERY)
        peer.mask = selectors.EVENT_READ
        assert peer.next_at(11.0) is None, "its socket wakes the server"
