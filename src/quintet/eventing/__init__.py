"""The data plane of eventing: publisher proxy, dispatcher, and what both share with the controllers."""
