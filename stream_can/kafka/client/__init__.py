"""kafka-python, made safe: behind these calls live the traps of the client and of the brokers."""
