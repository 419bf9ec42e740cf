"""The controller runtime. It knows no kind of ours; `reconcile` is the contract and the place to start."""
