"""What `quintet report` gathers for somebody who helps, and how secrets are kept out of it."""
