// The difference between two versions of a file.
import { el, get, path, readable, size, time } from './tools.js';

function line(change) {
  const [sign, old, fresh, text] = change;
  const kinds = { '+': 'added', '-': 'removed', ' ': 'same' };
  return el('tr', { class: kinds[sign] },
    el('td', { class: 'number' }, old ?? ''), el('td', { class: 'number' }, fresh ?? ''),
    el('td', { class: 'sign' }, sign), el('td', { class: 'code' }, text));
}

export async function difference({ state, parts: [oldId, newId, ...parts] }) {
  const found = await get('/api/difference', { old: oldId, new: newId }, path(parts.join('/')));
  const name = readable(parts[parts.length - 1]);
  const side = (id, file) => {
    const snapshot = state.byId.get(id);
    return el('div', {}, el('strong', {}, file ? `${time(file.time)}, ${size(file.size)}` : 'absent'),
      el('span', { class: 'faint' }, snapshot ? `in the snapshot ${time(snapshot.started)}` : ''));
  };
  const view = el('div', { class: 'view diff', 'data-title': `Changes of ${name}` },
    el('h1', {}, name),
    el('p', {}, el('a', { href: `#/browse/${newId}/${parts.slice(0, -1).join('/')}?file=${encodeURIComponent(parts[parts.length - 1])}` },
      `/${parts.map(readable).join('/')}`)),
    el('div', { class: 'versus' }, side(oldId, found.old), el('span', { 'aria-hidden': 'true' }, '\u2192'), side(newId, found.new)));
  if (found.message) view.append(el('p', { class: 'note' }, found.message));
  if (found.hunks) {
    view.append(el('p', { class: 'faint' }, `${found.added} lines added, ${found.removed} removed`),
      el('div', { class: 'scroll' }, el('table', { class: 'hunks' }, found.hunks.map((hunk) =>
        el('tbody', {}, hunk.map(line))))));
  }
  return view;
}
