"""The Helm chart: its objects, the expressions in its templates, and the files that only it has."""
