"""What every long-running program has: settings, metrics, health, pages."""
