"""Messages of dense rows."""

from __future__ import annotations

from stream_can.messages.messages import Messages

MESSAGES = Messages
