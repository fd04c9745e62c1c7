// The search of names, in a snapshot or in all of them. Results appear while the server searches.
import { address, count, el, failed, icon, readable, size, time } from './tools.js';

let stop = null;

export async function find({ state, query }) {
  const wanted = new URLSearchParams(query);
  const text = wanted.get('text') || '';
  const inside = state.byId.get(wanted.get('in')) || null;
  document.getElementById('search-text').value = text;
  const status = el('p', { class: 'faint', role: 'status' }, 'Searching');
  const list = el('ul', { class: 'results' });
  const other = inside
    ? el('a', { href: `#/find?text=${encodeURIComponent(text)}` }, 'Search all snapshots')
    : null;
  const view = el('div', { class: 'view find', 'data-title': `Find ${text}` },
    el('h1', {}, 'Find ', el('q', {}, text)),
    el('div', { class: 'bar' }, el('span', { class: 'faint' },
      inside ? `In the snapshot ${time(inside.started)} of ${inside.host}` : 'In all snapshots, the newest that has each path'), other),
    status, list);
  stop?.abort();
  const mine = stop = new AbortController();
  addEventListener('hashchange', () => mine.abort(), { once: true });
  run(text, inside, list, status, mine, state).catch((error) => { if (error.name !== 'AbortError') status.replaceWith(failed(error)); });
  return view;
}

async function run(text, inside, list, status, mine, state) {
  const parts = inside ? { text, snapshot: inside.id } : { text };
  const response = await fetch(address('/api/search', parts), { signal: mine.signal });
  if (!response.ok) throw new Error((await response.json()).error);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let found = 0;
  let left = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (left + value).split('\n');
    left = lines.pop();
    for (const line of lines.filter(Boolean).map((it) => JSON.parse(it))) {
      if (line.searched !== undefined) {
        const more = line.more ? ' The first are shown; more letters find fewer.' : '';
        status.textContent = line.done
          ? `${found ? count(found, 'match').replace('matchs', 'matches') : 'Nothing'} found among ${count(line.searched, 'name')}.${more}`
          : `Searching: ${count(line.searched, 'name')} so far`;
        if (line.error) status.after(el('p', { class: 'problem' }, line.error));
        continue;
      }
      found += 1;
      list.append(result(line, state));
    }
  }
}

function result(line, state) {
  const snapshot = state.byId.get(line.snapshot);
  const link = line.link.replace(/^\//, '');
  const parent = link.replace(/\/?[^/]*$/, '');
  const href = line.kind === 'folder' ? `#/browse/${line.snapshot}/${link}`
    : `#/browse/${line.snapshot}/${parent}?file=${encodeURIComponent(link.split('/').pop())}`;
  return el('li', {}, el('a', { href }, icon(line.kind), el('span', {}, el('b', {}, readable(link.split('/').pop())),
    el('small', {}, `/${parent.split('/').map(readable).join('/')}`))),
  el('span', { class: 'faint' }, [line.size === undefined ? '' : size(line.size), time(line.time),
    snapshot ? `${snapshot.host}, ${time(snapshot.started)}` : ''].filter(Boolean).join(' \u00b7 ')));
}
