"""The parts that every running program has: settings, metrics, health, pages."""
