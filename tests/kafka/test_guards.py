"""What errors of kafka-python are called."""

import selectors
import socket

import pytest
from kafka import errors

from stream_can.kafka.client.guards import RetryError, classify, once
from stream_can.kafka.client.options import Options

pytestmark = pytest.mark.fast


def test_the_name_of_an_error_is_said_once() -> None:
    """Before, a log line began with it twice, or three times where one was made of another."""
    inner = errors.KafkaConnectionError("socket disconnected")
    for error in (inner, errors.KafkaConnectionError(inner), OSError("no route")):
        said = str(classify(error, RetryError))
        assert said.count(f"{type(error).__name__}: ") == 1, said
    said = "[Error 58] SaslAuthenticationFailedError: SaslAuthenticationFailedError: no"
    assert once(said) == "[Error 58] SaslAuthenticationFailedError: no"


def test_a_socket_that_is_not_registered_is_not_described():
    """kafka-python asks for its key before each wait."""

    class Described(socket.socket):
        def __repr__(self):
            raise AssertionError

    options = Options(["127.0.0.1:1"])
    kinds = {each["selector"] for each in (options.consumer, options.producer, options.admin)}
    (kind,) = kinds
    with kind() as selector, Described() as pair:
        for _ in range(2):
            with pytest.raises(KeyError):
                selector.get_key(pair)
            key = selector.register(pair, selectors.EVENT_READ, "read")
            assert selector.get_key(pair) == key
            key = selector.modify(pair, selectors.EVENT_WRITE, "write")
            assert selector.get_key(pair) == key == selector.unregister(pair)
