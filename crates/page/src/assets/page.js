// The page: its views by the part of the address behind `#`, the search field and keys.
import { el, failed, get, toast } from './tools.js';
import { overview } from './overview.js';
import { browse } from './browse.js';
import { find } from './find.js';
import { space } from './space.js';
import { difference } from './difference.js';

const main = document.getElementById('main');
const text = document.getElementById('search-text');

/** What all views share. */
export const state = { session: {}, snapshots: [], byId: new Map() };

/** Lists the snapshots again. */
export async function refresh() {
  state.snapshots = (await get('/api/snapshots')).snapshots;
  state.byId = new Map(state.snapshots.map((it) => [it.id, it]));
}

/** Splits the address: `#/view/part/part?text`. Parts stay escaped. */
function place() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = '', ...parts] = path.split('/');
  return { view, parts: parts.filter(Boolean), query };
}

let turn = 0;
let shown = '';

async function show() {
  const { view, parts, query } = place();
  const mine = ++turn;
  const views = { '': overview, browse, find, space, diff: difference };
  const chosen = views[view] || overview;
  document.querySelectorAll('nav a').forEach((link) => {
    const is = link.dataset.view === (view || 'overview');
    if (is) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  });
  try {
    const made = await chosen({ state, parts, query, previous: shown });
    if (mine !== turn) return;
    shown = view;
    if (made) {
      main.replaceChildren(made);
      made.dispatchEvent(new CustomEvent('shown'));
      if (made.dataset.title) document.title = `${made.dataset.title} - Cutpoint`;
    }
  } catch (error) {
    if (mine === turn) { shown = ''; main.replaceChildren(failed(error)); }
  }
}

document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  const { view, parts } = place();
  if (!text.value.trim()) return;
  const inside = view === 'browse' && parts[0] ? `&in=${parts[0]}` : '';
  location.hash = `#/find?text=${encodeURIComponent(text.value.trim())}${inside}`;
});

document.addEventListener('keydown', (event) => {
  const inField = event.target.matches('input, textarea, select');
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/' && !inField) { event.preventDefault(); text.focus(); text.select(); }
  else if (event.key === 'Escape' && event.target === text) main.focus();
  else if (event.key === '?' && !inField) keys();
});

/** Shows the keys. */
function keys() {
  const rows = [
    ['/', 'Find files by name'], ['Up, Down, Page Up, Page Down', 'Move in a folder'], ['Enter', 'Open'],
    ['Backspace', 'Folder above'], ['Left, Right', 'Older or newer snapshot, in a folder'], ['Escape', 'Close'],
  ];
  const dialog = el('dialog', { class: 'keys', onclose: () => dialog.remove() },
    el('h2', {}, 'Keys'),
    el('dl', {}, rows.map(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)])),
    el('button', { onclick: () => dialog.close() }, 'Close'));
  document.body.append(dialog);
  dialog.showModal();
}

/** Shows problems that the server has met. */
let known = 0;
async function problems() {
  if (document.hidden) return;
  try {
    const found = await get('/api/problems', { known });
    known = found.count;
    found.problems.forEach((message) => toast(message, 'bad'));
  } catch { /* The next request says it. */ }
}

async function begin() {
  try {
    state.session = await get('/api/session');
    const label = document.getElementById('place');
    label.textContent = state.session.place;
    label.title = `Repository ${state.session.repository}`;
    await refresh();
  } catch (error) {
    main.replaceChildren(failed(error));
    return;
  }
  addEventListener('hashchange', show);
  await show();
  document.documentElement.dataset.ready = 'yes';
  setInterval(problems, 5000);
}

begin();
