// What takes the space: a map by path, the steps of storing, and growth over time.
import { count, drawing, el, failed, get, number, path, readable, size } from './tools.js';

async function measured(again, view) {
  for (let first = true; ; first = false) {
    const found = await get('/api/space', again && first ? { again: 1 } : {});
    if (found.state === 'done') return found;
    if (found.state === 'failed') throw new Error(found.message);
    const share = found.total ? Math.floor(100 * found.done / found.total) : 0;
    view.textContent = `Reading what the snapshots contain: ${share} %`;
    await new Promise((done) => setTimeout(done, 250));
  }
}

const width = (box) => Math.max(280, box.clientWidth || Math.min(innerWidth, 1240) - 48);

/** Draws anew when the width changes. */
function responsive(box, kind, raw) {
  let last = 0;
  const draw = async () => {
    const now = width(box);
    if (Math.abs(now - last) < 24) return;
    last = now;
    try { box.replaceChildren(await drawing(kind, now, raw)); } catch (error) { box.replaceChildren(failed(error)); }
  };
  new ResizeObserver(draw).observe(box);
  return draw();
}

function rows(found, parts) {
  const base = `#/space${parts.map((part) => `/${part}`).join('')}`;
  const most = Math.max(1, ...found.rows.map((it) => it.stored), found.rest.stored);
  const row = (it, name) => el('tr', {},
    el('td', { class: 'text' }, name),
    el('td', { class: 'right strong' }, size(it.stored),
      el('meter', { min: 0, max: most, value: it.stored, 'aria-hidden': 'true' })),
    el('td', { class: 'right wide-only' }, size(it.older)),
    el('td', { class: 'right' }, size(it.logical)),
    el('td', { class: 'right wide-only' }, it.logical > it.unique ? size(it.logical - it.unique) : '\u2013'),
    el('td', { class: 'right wide-only' }, it.unique > it.current ? size(it.unique - it.current) : '\u2013'),
    el('td', { class: 'right wide-only' }, number(it.files)));
  return el('div', { class: 'scroll' }, el('table', { class: 'sizes' },
    el('thead', {}, el('tr', {}, el('th', {}, 'Name'), el('th', { class: 'right', title: 'Space in the repository' }, 'Stored'),
      el('th', { class: 'right wide-only', title: 'Only in older snapshots' }, 'of it older'),
      el('th', { class: 'right', title: 'Size of the files in the newest snapshots' }, 'Files'),
      el('th', { class: 'right wide-only', title: 'Saved because the same bytes are stored elsewhere already' }, 'Duplicate'),
      el('th', { class: 'right wide-only', title: 'Saved by delta encoding and compression' }, 'Delta, compressed'),
      el('th', { class: 'right wide-only' }, 'Number'))),
    el('tbody', {}, found.rows.map((it) => row(it, it.folder ? el('a', { href: `${base}/${it.link}` }, it.name) : it.name)),
      found.rest.stored ? row(found.rest, el('span', { class: 'faint' }, found.more ? 'everything else' : 'smaller files here')) : null)));
}

export async function space({ parts, query }) {
  const view = el('div', { class: 'view space', 'data-title': 'Space' });
  const status = el('p', { class: 'wait', role: 'status' }, 'Reading what the snapshots contain');
  view.append(status);
  const fill = async (again) => {
    const found = await measured(again, status);
    const raw = path(parts.join('/'));
    const table = await get('/api/space/rows', {}, raw);
    if (!parts.length && query !== 'top') {
      // Begins where there is more than one folder.
      const below = [];
      for (let at = table; at.rows.length === 1 && at.rows[0].folder && !at.rest.stored;) {
        below.push(at.rows[0].link);
        at = await get('/api/space/rows', {}, path(below.join('/')));
      }
      if (below.length) { location.replace(`#/space/${below.join('/')}`); return; }
    }
    const map = el('div', { class: 'drawing' });
    const growth = el('div', { class: 'drawing' });
    const steps = el('div', { class: 'drawing' });
    const way = el('nav', { class: 'crumbs', 'aria-label': 'Path' }, el('a', { href: '#/space?top' }, 'All hosts'),
      parts.map((part, at) => [el('span', { 'aria-hidden': 'true' }, at === 1 ? ':/' : '/'), el('a', { href: `#/space/${parts.slice(0, at + 1).join('/')}` }, readable(part))]));
    view.replaceChildren(
      el('div', { class: 'figures' },
        el('div', {}, el('strong', {}, size(found.stored)), el('span', {}, 'stored')),
        el('div', {}, el('strong', {}, size(found.logical)), el('span', {}, `files in ${count(found.snapshots, 'snapshot')}`)),
        el('div', {}, el('strong', {}, found.stored ? `${(found.logical / found.stored).toFixed(1)} : 1` : '\u2013'), el('span', {}, 'saved'))),
      found.is_old ? el('p', { class: 'note' }, 'There are other snapshots since. ',
        el('button', { onclick: () => fill(true).catch((error) => view.replaceChildren(failed(error))) }, 'Measure again')) : '',
      found.unreadable ? el('p', { class: 'problem' }, `${count(found.unreadable, 'object')} could not be read; cutpoint check names what is affected.`) : '',
      el('section', {}, el('h1', {}, 'By path'),
        el('div', { class: 'bar' }, way, el('span', { class: 'faint' }, `${size(table.sizes.stored)} stored, ${size(table.sizes.older)} of it only in older snapshots`)),
        map, el('p', { class: 'legend' }, el('i', { class: 'swatch older' }), 'only in older snapshots',
          found.sample_rate > 1 ? `; estimated from one chunk in ${found.sample_rate}` : ''), rows(table, parts)),
      el('section', {}, el('h1', {}, 'Over time'), growth,
        el('p', { class: 'legend' }, el('i', { class: 'swatch files' }), 'files of the newest snapshots ',
          el('i', { class: 'swatch stored' }), 'added to the repository')),
      el('section', {}, el('h1', {}, 'By step'), steps));
    await Promise.all([responsive(map, 'map', raw), responsive(growth, 'growth'), responsive(steps, 'steps')]);
  };
  fill(false).catch((error) => view.replaceChildren(failed(error)));
  return view;
}
