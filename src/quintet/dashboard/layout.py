"""The frame of every page. Pure."""

from __future__ import annotations

from quintet.dashboard.markup import Html, element


def render_page(title: str, main: Html, *, context: str, live: str = "") -> bytes:
    """Return a whole page; `live` is the URL of its changes."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Quintet"),
        element("link", rel="icon", href="/static/icon.svg"),
        element("link", rel="stylesheet", href="/static/dashboard.css"),
        element("script", "", src="/static/dashboard.js", defer=True) if live else None,
    )
    header = element(
        "header",
        element("a", "Skip to content", href="#main", class_="skip"),
        element("a", "Quintet", href="/", class_="brand"),
        element("span", context, class_="context"),
        element("span", "", id="live", role="status") if live else None,
    )
    body = element("body", header, element("main", main, id="main", data_live=live or None))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode()


def render_entry() -> bytes:
    """Return the page that leads from the URL with the token to the overview.

    A redirect would continue the navigation of a link on another site, for which the browser sends no cookie.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="refresh", content="0;url=/"),
        element("title", "Quintet"),
    )
    body = element("body", element("p", element("a", "Open the dashboard", href="/")))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode()
