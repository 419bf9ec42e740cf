"""What `quintet doctor` looks at beyond connection and rights: before an installation, and after it."""
