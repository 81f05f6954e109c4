"use strict";
// What a reader chose (sorting, filters, switches) is kept in the address after "#?", so that a link shows the same.
const state = {
  all: new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : ""),
  get(key) {
    return this.all.get(key) || "";
  },
  set(key, value) {
    if (this.get(key) === value) return; // an address of another part of the page stays as it is
    if (value) this.all.set(key, value);
    else this.all.delete(key);
    const text = this.all.toString();
    history.replaceState(null, "", text ? `#?${text}` : location.pathname + location.search);
  },
};
