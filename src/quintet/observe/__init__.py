"""What a running process shows of itself: logs, metrics, health."""
