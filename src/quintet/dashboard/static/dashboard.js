"use strict";

// Shows each change that the server sends, without losing focus, selection or scroll position.
const main = document.getElementById("main");
const live = document.getElementById("live");

/** Makes the children of one element equal to those of another; equal nodes stay as they are. */
function update(shown, fresh) {
  const before = [...shown.childNodes], after = [...fresh.childNodes];
  const byId = new Map(before.filter((node) => node.id).map((node) => [node.id, node]));
  let at = shown.firstChild;
  for (const node of after) {
    const match = node.id ? byId.get(node.id) : at && !at.id && at.nodeName === node.nodeName ? at : null;
    if (!match) {
      shown.insertBefore(node, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else shown.insertBefore(match, at);
    byId.delete(node.id);
    if (!match.isEqualNode(node)) replace(match, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function replace(shown, fresh) {
  if (shown.nodeType !== Node.ELEMENT_NODE) {
    shown.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...shown.attributes]) if (!fresh.hasAttribute(name)) shown.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  // A form keeps what the user has entered but not sent.
  if (shown.nodeName !== "FORM") update(shown, fresh);
}

function follow(url) {
  const source = new EventSource(url);
  source.onopen = () => { live.textContent = "live"; live.className = "on"; };
  source.onerror = () => { live.textContent = "connection lost, retrying"; live.className = "off"; };
  source.addEventListener("view", (event) => {
    update(main, new DOMParser().parseFromString(event.data, "text/html").body);
  });
  source.addEventListener("end", (event) => {
    source.close();
    live.textContent = event.data;
    live.className = "off";
  });
}

main.addEventListener("change", (event) => {
  if (event.target.matches(".filters select")) event.target.form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && search && !event.ctrlKey && !event.metaKey && !/INPUT|SELECT|TEXTAREA/.test(event.target.nodeName)) {
    event.preventDefault();
    search.focus();
  }
});
follow(main.dataset.live);
