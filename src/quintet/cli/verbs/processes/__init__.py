"""Verbs that run the processes of Quintet in pods."""
