"""The dashboard: a local web page with the status of Quintet objects, live, as the viewer may see them."""
