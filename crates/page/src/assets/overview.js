// The snapshots, and the state of the last run of each host.
import { ago, count, day, el, number, size, time } from './tools.js';
import { refresh } from './page.js';

const SHOWN = 100;
/** A newest snapshot older than this is pointed out. */
const OLD = 8 * 86_400_000;

/** Returns the address of a snapshot: the only path that it has, or its root. */
export function open(snapshot) {
  const only = snapshot.paths.length === 1 ? snapshot.paths[0].link : '';
  return `#/browse/${snapshot.id}${only}`;
}

/** Returns the marks of a snapshot. */
export function marks(snapshot) {
  const found = [];
  const add = (kind, text, title) => found.push(el('span', { class: `mark ${kind}`, title }, text));
  if (snapshot.partial) add('bad', 'cut off', 'The run was cut off; a part of the sources is absent');
  if (snapshot.missing.length) add('bad', 'incomplete', `Absent: ${snapshot.missing.join(', ')}`);
  if (snapshot.problems) add('warn', count(snapshot.problems, 'problem'), 'Files that could not be read');
  if (snapshot.held) add('held', 'held', 'Protected from cutpoint forget');
  snapshot.tags.forEach((tag) => add('tag', tag));
  return found;
}

const paths = (snapshot) => snapshot.paths.map((it) => it.text).join(', ');

/** Returns the newest snapshot of each host and set of paths. */
function newest(snapshots) {
  const found = new Map();
  for (const snapshot of snapshots) {
    const key = JSON.stringify([snapshot.host, snapshot.paths.map((it) => it.link)]);
    const series = found.get(key);
    if (series) series.all.push(snapshot); else found.set(key, { last: snapshot, all: [snapshot] });
  }
  return [...found.values()];
}

function card({ last, all }) {
  const is = last.partial || last.missing.length ? 'bad'
    : last.problems || Date.now() - last.started > OLD ? 'warn' : 'good';
  const says = { bad: 'Incomplete', warn: last.problems ? count(last.problems, 'problem') : 'Old', good: 'Complete' };
  const previous = all[1];
  const change = previous ? last.size - previous.size : 0;
  return el('a', { class: `card ${is}`, href: open(last) },
    el('div', { class: 'card-head' }, el('strong', {}, last.host), el('span', { class: `state ${is}` }, says[is])),
    el('div', { class: 'card-paths' }, paths(last)),
    el('div', { class: 'card-time' }, ago(last.started), el('span', {}, time(last.started))),
    el('dl', {},
      el('div', {}, el('dt', {}, 'Files'), el('dd', {}, number(last.files))),
      el('div', {}, el('dt', {}, 'Size'), el('dd', {}, size(last.size),
        change ? el('small', {}, `${change > 0 ? '+' : '\u2212'}${size(Math.abs(change))}`) : null)),
      el('div', {}, el('dt', {}, 'Stored'), el('dd', {}, size(last.stored))),
      el('div', {}, el('dt', {}, 'Snapshots'), el('dd', {}, number(all.length)))));
}

/** Says how long no check has read some of the stored data, as far as this machine knows. */
function checked(since) {
  if (!since) return '';
  return el('p', { class: 'faint checks' }, 'Every stored byte was written, or read by a check of this machine, since ',
    el('strong', {}, day(since)), ` (${ago(since)}). `, el('code', {}, 'cutpoint check --read-data'), ' reads all of them.');
}

function row(snapshot) {
  return el('tr', {},
    el('td', { class: 'when' }, el('a', { href: open(snapshot) }, time(snapshot.started))),
    el('td', { class: 'text' }, paths(snapshot), snapshot.description ? el('small', {}, snapshot.description) : null,
      el('span', { class: 'marks' }, marks(snapshot))),
    el('td', { class: 'right' }, size(snapshot.size)),
    el('td', { class: 'right wide-only', title: 'By how much the repository grew' }, size(snapshot.stored)),
    el('td', { class: 'right wide-only' }, number(snapshot.files)),
    el('td', { class: 'wide-only' }, el('code', {}, snapshot.short)));
}

/** Returns the table of the snapshots of a host. */
function table(host, snapshots) {
  const body = el('tbody');
  let shown = 0;
  const more = el('button', { class: 'more', onclick: () => extend() });
  const extend = () => {
    body.append(...snapshots.slice(shown, shown + SHOWN).map(row));
    shown = Math.min(shown + SHOWN, snapshots.length);
    more.hidden = shown >= snapshots.length;
    more.textContent = `Show ${Math.min(SHOWN, snapshots.length - shown)} more of ${number(snapshots.length)}`;
  };
  extend();
  const first = snapshots[snapshots.length - 1];
  return el('section', { class: 'host' },
    el('h2', {}, host, el('small', {}, `${count(snapshots.length, 'snapshot')} since ${day(first.started)}`)),
    el('table', { class: 'snapshots' },
      el('thead', {}, el('tr', {}, el('th', {}, 'Time'), el('th', {}, 'Paths'), el('th', { class: 'right' }, 'Size'),
        el('th', { class: 'right wide-only' }, 'Stored'), el('th', { class: 'right wide-only' }, 'Files'),
        el('th', { class: 'wide-only' }, 'ID'))),
      body),
    more);
}

export async function overview({ state, previous }) {
  if (previous) await refresh();
  const all = state.snapshots;
  const view = el('div', { class: 'view', 'data-title': 'Snapshots' });
  if (!all.length) {
    view.append(el('div', { class: 'empty' }, el('h1', {}, 'No snapshots yet'),
      el('p', {}, 'Make the first one with ', el('code', {}, 'cutpoint backup PATH'), '. It appears here.')));
    return view;
  }
  const tables = el('div');
  const fill = (wanted) => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (it) => {
      const text = [it.host, paths(it), it.tags.join(' '), it.description, time(it.started), it.short].join(' ').toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const hosts = new Map();
    all.filter(has).forEach((it) => hosts.set(it.host, [...(hosts.get(it.host) || []), it]));
    tables.replaceChildren(...[...hosts].map(([host, snapshots]) => table(host, snapshots)));
    if (!hosts.size) tables.append(el('p', { class: 'wait' }, 'No snapshot has these words.'));
  };
  view.append(
    el('h1', {}, 'Last backups'),
    el('div', { class: 'cards' }, newest(all).map(card)),
    checked(state.session.unread_since),
    el('div', { class: 'heading' }, el('h1', {}, 'All snapshots'),
      el('input', { type: 'search', class: 'filter', placeholder: 'Host, path, tag or date', 'aria-label': 'Filter snapshots',
        oninput: (event) => fill(event.target.value) })),
    tables);
  fill('');
  return view;
}
