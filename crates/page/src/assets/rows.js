// A list of any length, of which only the rows in sight are elements. Slices are fetched when they come in sight.
import { el } from './tools.js';

const SLICE = 200;
/** Rows above and below those in sight. */
const MARGIN = 12;

/**
 * Shows `total` rows. `fetchSlice(from, count)` returns rows, `draw(row, at)` the element of one,
 * `open(row)` is called by Enter and click, `choose(row)` when a row becomes the current one.
 */
export class Rows {
  constructor({ label, fetchSlice, draw, open, choose, leave, aside }) {
    Object.assign(this, { fetchSlice, draw, open, choose, leave, aside });
    this.slices = new Map();
    this.total = 0;
    this.current = -1;
    this.body = el('div', { class: 'rows-body' });
    this.element = el('div', {
      class: 'rows', tabindex: '0', role: 'grid', 'aria-label': label, 'aria-readonly': 'true',
      onscroll: () => this.update(), onkeydown: (event) => this.key(event), onfocus: () => this.focused(),
    }, this.body);
    this.observer = new ResizeObserver(() => this.update());
    this.observer.observe(this.element);
  }

  /** Begins anew with another number of rows, of which the first slice may be known. */
  reset(total, first) {
    this.slices.clear();
    if (first) this.slices.set(0, first);
    this.total = total;
    this.current = -1;
    this.element.scrollTop = 0;
    this.element.setAttribute('aria-rowcount', total);
    this.element.removeAttribute('aria-activedescendant');
    this.update();
  }

  get height() {
    return parseFloat(getComputedStyle(this.element).getPropertyValue('--row')) || 36;
  }

  /** Returns a row that was fetched. */
  at(number) {
    const slice = this.slices.get(Math.floor(number / SLICE));
    return Array.isArray(slice) ? slice[number % SLICE] : undefined;
  }

  async fetch(slice) {
    if (this.slices.has(slice)) return;
    const mine = this.slices;
    mine.set(slice, 'wait');
    try {
      mine.set(slice, await this.fetchSlice(slice * SLICE, SLICE));
    } catch {
      mine.delete(slice);
      return;
    }
    this.update();
  }

  /** Draws the rows in sight. */
  update() {
    const height = this.height;
    this.body.style.height = `${this.total * height}px`;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - MARGIN);
    const last = Math.min(this.total, Math.ceil((this.element.scrollTop + this.element.clientHeight) / height) + MARGIN);
    for (let slice = Math.floor(first / SLICE); slice * SLICE < last; slice += 1) this.fetch(slice);
    const drawn = [];
    for (let at = first; at < last; at += 1) {
      const row = this.at(at);
      const node = row ? this.draw(row, at) : el('div', { class: 'row pending' });
      node.id = `row-${at}`;
      node.setAttribute('role', 'row');
      node.setAttribute('aria-rowindex', at + 1);
      if (at === this.current) { node.classList.add('current'); node.setAttribute('aria-selected', 'true'); }
      node.style.top = `${at * height}px`;
      node.addEventListener('click', (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
        event.preventDefault();
        this.move(at, false);
        if (this.at(at)) this.open(this.at(at));
      });
      drawn.push(node);
    }
    this.body.replaceChildren(...drawn);
  }

  focused() {
    if (this.current < 0 && this.total) this.move(0);
  }

  /** Makes a row the current one. */
  move(to, scrolls = true) {
    if (!this.total) return;
    this.current = Math.max(0, Math.min(this.total - 1, to));
    const height = this.height;
    const top = this.current * height;
    if (scrolls && top < this.element.scrollTop) this.element.scrollTop = top;
    const bottom = top + height - this.element.clientHeight;
    if (scrolls && bottom > this.element.scrollTop) this.element.scrollTop = bottom;
    this.element.setAttribute('aria-activedescendant', `row-${this.current}`);
    this.update();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const row = this.at(this.current);
      if (row && this.choose) this.choose(row);
    }, 120);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) {
      event.preventDefault();
      const to = this.current + moves[event.key];
      this.move(Number.isFinite(to) ? to : to < 0 ? 0 : this.total - 1);
    } else if (event.key === 'Enter' && this.at(this.current)) {
      event.preventDefault();
      this.open(this.at(this.current));
    } else if (event.key === 'Backspace' && this.leave) {
      event.preventDefault();
      this.leave();
    } else if ((event.key === 'ArrowLeft' || event.key === 'ArrowRight') && this.aside) {
      event.preventDefault();
      this.aside(event.key === 'ArrowLeft' ? 1 : -1);
    }
  }
}
