"""A forked child does not keep its parent's connections open."""

import os
import signal
import socket

from cqrs_cli.system.forked_children import close_sockets_in_children


def test_child_closes_inherited_connections() -> None:
    worker, jvm = socket.socketpair()
    jvm.settimeout(10)
    close_sockets_in_children()
    child = os.fork()
    if not child:
        signal.pause()
    try:
        worker.close()
        assert jvm.recv(1) == b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        jvm.close()


def test_later_sockets_stay_open() -> None:
    close_sockets_in_children()
    parent_socket, child_socket = socket.socketpair()
    parent_socket.settimeout(10)
    child = os.fork()
    if not child:
        child_socket.send(b"x")
        os._exit(0)
    os.waitpid(child, 0)
    assert parent_socket.recv(1) == b"x"
    parent_socket.close()
    child_socket.close()
