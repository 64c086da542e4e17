"""What errors of kafka-python are called."""

import pytest
from kafka import errors

from stream_can.kafka.client.guards import RetryError, classify, once

pytestmark = pytest.mark.fast


def test_the_name_of_an_error_is_said_once() -> None:
    """Before, a log line began with it twice, or three times where one was made of another."""
    inner = errors.KafkaConnectionError("socket disconnected")
    for error in (inner, errors.KafkaConnectionError(inner), OSError("no route")):
        said = str(classify(error, RetryError))
        assert said.count(f"{type(error).__name__}: ") == 1, said
    said = "[Error 58] SaslAuthenticationFailedError: SaslAuthenticationFailedError: no"
    assert once(said) == "[Error 58] SaslAuthenticationFailedError: no"
