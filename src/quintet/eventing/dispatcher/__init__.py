"""The dispatcher: pulls events from the stream and delivers them to the sinks of Subscriptions."""
