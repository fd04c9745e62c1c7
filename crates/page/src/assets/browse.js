// The files of a snapshot: a folder, its way, other snapshots of the host, and details at the side.
import { address, ago, count, el, get, icon, path, readable, size, time } from './tools.js';
import { open as addressOf } from './overview.js';
import { Rows } from './rows.js';
import { details } from './details.js';
import { restoreDialog } from './restore.js';

const order = { sort: 'name', descending: 0 };

/** Returns the address of a path of a snapshot. */
export const place = (id, parts) => `#/browse/${id}${parts.map((part) => `/${part}`).join('')}`;

function row(entry, link) {
  const name = el('span', { class: 'name', role: 'gridcell' }, icon(entry.kind),
    el('a', { href: link, tabindex: '-1' }, entry.name),
    entry.target !== undefined ? el('small', {}, `\u2192 ${entry.target}`) : null,
    entry.defect ? el('span', { class: 'mark warn', title: 'Not saved completely' }, 'defect') : null);
  return el('div', { class: `row ${entry.kind}` }, name,
    el('span', { class: 'size', role: 'gridcell' }, entry.size === undefined ? '' : size(entry.size)),
    el('span', { class: 'time', role: 'gridcell' }, time(entry.time)));
}

/** Returns the list of snapshots of the same host, of which one is chosen. */
function picker(state, snapshot, parts) {
  const same = state.snapshots.filter((it) => it.host === snapshot.host);
  const at = same.indexOf(snapshot);
  const go = (to) => { if (same[to]) location.hash = place(same[to].id, parts); };
  const select = el('select', { 'aria-label': 'Snapshot', onchange: () => go(select.selectedIndex) },
    same.map((it) => el('option', { selected: it === snapshot, value: it.id },
      `${time(it.started)}${it.partial ? ' (cut off)' : ''}`)));
  const button = (to, text, label) => el('button', { title: label, 'aria-label': label, disabled: !same[to], onclick: () => go(to) }, text);
  return {
    go: (step) => go(at + step),
    element: el('div', { class: 'picker' }, button(at + 1, '\u2039', 'Older snapshot'), select,
      button(at - 1, '\u203a', 'Newer snapshot'), el('span', { class: 'age' }, `${snapshot.host}, ${ago(snapshot.started)}`)),
  };
}

function crumbs(id, parts) {
  const links = [el('a', { href: `${place(id, [])}?top`, 'aria-label': 'Root' }, '/')];
  parts.forEach((part, at) => {
    links.push(el('span', { 'aria-hidden': 'true' }, at ? '/' : ''),
      el('a', { href: place(id, parts.slice(0, at + 1)), 'aria-current': at + 1 === parts.length ? 'page' : undefined }, readable(part)));
  });
  return el('nav', { class: 'crumbs', 'aria-label': 'Path' }, links);
}

/** Goes down while a folder has nothing but one folder above the sources of the backup. */
async function deepest(fetchSlice, slice) {
  const parts = [];
  let found = slice;
  for (;;) {
    const only = found.total === 1 && found.rows[0];
    if (!only || only.kind !== 'folder' || only.time !== null) return parts;
    parts.push(only.link);
    found = await fetchSlice(parts, 0, 2);
  }
}

export async function browse({ state, parts: [id, ...parts], query }) {
  const focus = document.activeElement;
  const snapshot = state.byId.get(id);
  if (!id && state.snapshots.length) { location.replace(addressOf(state.snapshots[0])); return null; }
  if (!snapshot) throw new Error('There is no such snapshot any more.');
  const sliceOf = (of, from, counted) => get('/api/folder', { snapshot: id, from, count: counted, ...order }, path(of.join('/')));
  const slice = (from, counted) => sliceOf(parts, from, counted);
  let first;
  const wanted = new URLSearchParams(query).get('file');
  try {
    first = await slice(0, 200);
  } catch (error) {
    // The path may be that of a file.
    const last = parts[parts.length - 1];
    if (!last || wanted) throw error;
    location.replace(`${place(id, parts.slice(0, -1))}?file=${encodeURIComponent(last)}`);
    return null;
  }
  if (!parts.length && query !== 'top') {
    const below = await deepest(sliceOf, first);
    if (below.length) { location.replace(place(id, below)); return null; }
  }
  const side = el('aside', { class: 'details', 'aria-label': 'Details', hidden: true });
  const show = async (entry) => {
    side.hidden = false;
    side.replaceChildren(el('p', { class: 'wait' }, 'Reading'));
    const mine = side.dataset.turn = String(Math.random());
    const made = await details({ state, snapshot, parts: [...parts, entry.link], close: () => { side.hidden = true; list.element.focus(); } });
    if (side.dataset.turn === mine) side.replaceChildren(made);
  };
  const other = picker(state, snapshot, parts);
  const openEntry = (entry) => {
    if (entry.kind === 'folder') location.hash = place(id, [...parts, entry.link]);
    else show(entry);
  };
  const list = new Rows({
    label: `Folder /${parts.map(readable).join('/')}`,
    fetchSlice: async (from, counted) => (await slice(from, counted)).rows,
    draw: (entry) => row(entry, entry.kind === 'folder' ? place(id, [...parts, entry.link])
      : `${place(id, parts)}?file=${encodeURIComponent(entry.link)}`),
    open: openEntry,
    choose: (entry) => { if (!side.hidden && entry.kind !== 'folder') show(entry); },
    leave: () => { if (parts.length) location.hash = place(id, parts.slice(0, -1)); },
    aside: other.go,
  });
  const head = el('div', { class: 'row head' });
  const drawHead = () => head.replaceChildren(...[['name', 'Name'], ['size', 'Size'], ['time', 'Modified']].map(([key, label]) => {
    const is = order.sort === key;
    const sort = async () => {
      order.descending = is ? 1 - order.descending : Number(key !== 'name');
      order.sort = key;
      drawHead();
      const again = await slice(0, 200);
      list.reset(again.total, again.rows);
    };
    return el('span', { class: key }, el('button', { class: 'plain sort', onclick: sort,
      'aria-label': `Sort by ${label.toLowerCase()}`, 'aria-pressed': is ? 'true' : 'false' },
    label, is ? el('i', { 'aria-hidden': 'true' }, order.descending ? '\u2193' : '\u2191') : null));
  }));
  drawHead();
  const zip = address('/api/zip', { snapshot: id }, path(parts.join('/')));
  const tools = el('div', { class: 'tools' },
    el('a', { class: 'button', href: zip, download: true, title: 'This folder and everything below it' }, 'Download as zip'),
    state.session.may_restore ? el('button', { onclick: () => restoreDialog(state, snapshot, parts) }, 'Restore\u2026') : null);
  const view = el('div', { class: 'view browse', 'data-title': parts.length ? readable(parts[parts.length - 1]) : '/' },
    el('div', { class: 'bar' }, other.element, tools),
    el('div', { class: 'bar' }, crumbs(id, parts), el('span', { class: 'count' }, count(first.total, 'entry').replace('entrys', 'entries'))),
    first.cut ? el('p', { class: 'problem' }, `${count(first.cut, 'more entry').replace('entrys', 'entries')} not shown; the search finds them.`) : null,
    first.error ? el('p', { class: 'problem' }, `The rest of this folder cannot be read: ${first.error}`) : null,
    snapshot.partial ? el('p', { class: 'problem' }, 'The run was cut off, so that a part of the sources is absent.') : null,
    el('div', { class: 'split' },
      el('div', { class: 'list' }, head, first.total ? list.element : el('p', { class: 'wait' }, 'This folder is empty.')), side));
  view.addEventListener('shown', () => {
    list.reset(first.total, first.rows);
    // Who has gone to the search field in the meantime stays there.
    const hasMoved = document.activeElement !== focus && document.activeElement.matches('input');
    if (first.total && !hasMoved) list.element.focus({ preventScroll: true });
    if (wanted) show({ link: wanted });
  }, { once: true });
  view.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !side.hidden) { side.hidden = true; list.element.focus(); }
  });
  return view;
}
