// The pictures of one label, a page at a time: a tap marks one, and the marked ones can be thrown away.

import { set } from "./camera.js";
import { count } from "./format.js";

const TIMEOUT_MS = 20_000;
const RETRY_MS = 2000;
const MOST_TRIES = 5; // of one thumbnail

const byId = (id) => document.getElementById(`teach-${id}`);

// A small picture with its text; the browser loads it when it comes into view.
export function thumb(camera, id, text) {
  const item = document.createElement("li");
  const picture = Object.assign(document.createElement("img"), { loading: "lazy", alt: text, title: text });
  let tries = MOST_TRIES;
  const load = () => (picture.src = `picture/${camera}/${id}.jpg`);
  picture.addEventListener("error", () => --tries > 0 && setTimeout(() => picture.isConnected && load(), RETRY_MS));
  load();
  item.append(picture);
  return item;
}

export class Pictures {
  // `discard` and `rename` send the request and resolve when it is answered.
  constructor({ discard, rename }) {
    this.marked = new Set();
    this.shown = ""; // what the list shows: camera, label, number of pictures and page
    this.at = { camera: null, label: null, page: 1, pages: 1 };
    byId("newer").addEventListener("click", () => this.turn(-1));
    byId("older").addEventListener("click", () => this.turn(1));
    byId("discard").addEventListener("click", () => discard(this.at.camera, [...this.marked]));
    byId("rename").addEventListener("click", () => {
      const name = prompt(`Another name for ${this.at.label.label}`, this.at.label.label);
      if (name !== null && name !== this.at.label.label) rename(this.at.camera, this.at.label.label, name);
    });
  }

  // Show the pictures of a label; null for none.
  show(camera, label) {
    byId("pictures").hidden = label === null;
    if (camera !== this.at.camera || label?.key !== this.at.label?.key) {
      this.at.page = 1;
      this.marked.clear();
    }
    Object.assign(this.at, { camera, label });
    this.count();
    if (label === null) {
      this.shown = "";
      return;
    }
    set(byId("shown"), label.label);
    this.load();
  }

  turn(by) {
    this.at.page = Math.min(this.at.pages, Math.max(1, this.at.page + by));
    this.marked.clear();
    this.load();
  }

  async load() {
    const { camera, label, page } = this.at;
    const wanted = `${camera} ${label.key} ${label.pictures} ${page}`;
    if (this.shown === wanted) return;
    this.shown = wanted;
    try {
      const answer = await fetch(`api/pictures/${camera}/${label.key}/${page}`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!answer.ok) throw new Error();
      const found = await answer.json();
      if (this.shown === wanted) this.list(found, wanted);
    } catch {
      if (this.shown === wanted) this.shown = ""; // tried again with the next state
    }
  }

  list({ page, pages, pictures }) {
    if (page !== this.at.page) this.shown = ""; // the page is gone: the answer is of the last one
    Object.assign(this.at, { page, pages });
    const ids = new Set(pictures.map(({ id }) => id));
    for (const id of this.marked) if (!ids.has(id)) this.marked.delete(id);
    const known = new Map([...byId("thumbs").children].map((item) => [item.dataset.id, item]));
    byId("thumbs").replaceChildren(...pictures.map(({ id, captured }) => known.get(id) ?? this.item(id, captured)));
    set(byId("page"), pages > 1 ? `page ${count(page)} of ${count(pages)}` : "");
    byId("newer").hidden = byId("older").hidden = pages < 2;
    byId("newer").disabled = page === 1;
    byId("older").disabled = page === pages;
    this.count();
  }

  item(id, captured) {
    const time = captured === null ? id : new Date(captured).toLocaleString();
    const item = thumb(this.at.camera, id, time);
    item.dataset.id = id;
    const button = Object.assign(document.createElement("button"), { type: "button", ariaPressed: "false" });
    button.append(item.firstChild);
    item.append(button);
    button.addEventListener("click", () => {
      if (!this.marked.delete(id)) this.marked.add(id);
      this.count();
    });
    return item;
  }

  // How many are marked; what is not marked any more looks so.
  count() {
    const number = this.marked.size;
    byId("discard").disabled = number === 0;
    set(byId("discard"), number === 0 ? "Throw away" : `Throw away ${count(number)}`);
    for (const item of byId("thumbs").children) item.firstChild.ariaPressed = String(this.marked.has(item.dataset.id));
  }
}
