"""What the tests are made of: a real control plane, patience, and a proxy that causes trouble."""
