// Small tools of all views. Text of files and their names reaches the page only by `textContent`.

/** Makes an element: attributes, event listeners (`onclick`) and children, which are nodes or text. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Asks the server. `parts` are parameters that are escaped; `raw` is escaped already. */
export async function get(path, parts = {}, raw = '', options = {}) {
  const response = await fetch(address(path, parts, raw), { credentials: 'same-origin', ...options });
  const value = await response.json().catch(() => ({ error: 'the program does not answer any more' }));
  if (!response.ok) throw new Error(value.error || response.statusText);
  return value;
}

/** Returns an address of the server. */
export function address(path, parts = {}, raw = '') {
  const pairs = Object.entries(parts).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  if (raw) pairs.push(raw);
  return pairs.length ? `${path}?${pairs.join('&')}` : path;
}

/** Asks the server for a change, with the proof that this page asks. */
export function post(path, proof, body) {
  return get(path, {}, '', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Cutpoint-Proof': proof },
    body: JSON.stringify(body),
  });
}

/** Formats a size in bytes. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value.toFixed(1)} ${units[unit]}`;
}

/** Formats a number. */
export const number = (value) => value.toLocaleString('en');

/** Formats a number of things. */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`;

const two = (value) => String(value).padStart(2, '0');

/** Formats a time in milliseconds as date and time of the day. */
export function time(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return '';
  const date = new Date(milliseconds);
  return `${day(milliseconds)} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Formats a time in milliseconds as a date. */
export function day(milliseconds) {
  const date = new Date(milliseconds);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Says how long ago a time is. */
export function ago(milliseconds) {
  const seconds = Math.max(0, (Date.now() - milliseconds) / 1000);
  const steps = [[60, 'second'], [60, 'minute'], [24, 'hour'], [365, 'day'], [Infinity, 'year']];
  let value = seconds;
  for (const [length, noun] of steps) {
    if (value < length) return noun === 'second' ? 'just now' : `${count(Math.floor(value), noun)} ago`;
    value /= length;
  }
  return '';
}

/** Joins an escaped path, as it is in addresses, to the parameter `path`. */
export const path = (link) => `path=${link}`;

/** Returns a readable form of an escaped name. */
export function readable(link) {
  try { return decodeURIComponent(link); } catch { return link; }
}

/** Shows a message for a while. */
export function toast(message, kind = '') {
  const note = el('div', { class: `toast ${kind}` }, el('span', {}, message),
    el('button', { class: 'plain', 'aria-label': 'Dismiss', onclick: () => note.remove() }, '\u00d7'));
  document.getElementById('toasts').append(note);
  if (kind !== 'bad') setTimeout(() => note.remove(), 8000);
}

/** Returns the paragraph for an error. */
export const failed = (error) => el('p', { class: 'problem', role: 'alert' }, String(error.message || error));

/** Returns a drawing of the server as an element. Its text was escaped there. */
export async function drawing(kind, width, raw = '') {
  const response = await fetch(address('/api/space/drawing', { kind, width: Math.round(width) }, raw));
  const text = await response.text();
  if (!response.ok) throw new Error(JSON.parse(text).error);
  return document.importNode(new DOMParser().parseFromString(text, 'image/svg+xml').documentElement, true);
}

const ICONS = {
  folder: 'M2 5a2 2 0 0 1 2-2h3l2 2h5a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2z',
  file: 'M5 2h5l4 4v9a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1zm5 0v4h4',
  link: 'M7 11l4-4M6 8L4.500 9.500a2.500 2.500 0 0 0 3.500 3.500L9.500 11.500M12 9.500l1.500-1.500a2.500 2.500 0 0 0-3.500-3.500L8.500 6',
  device: 'M4 4h10v10H4zM7 7h4v4H7z',
  pipe: 'M2 9h5m4 0h5M7 6h4v6H7z',
  socket: 'M9 3v4m-3 0h6v3a3 3 0 0 1-6 0zm3 6v3',
};

/** Returns the icon of a kind of entry. */
export function icon(kind) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 18 18');
  svg.setAttribute('class', `icon ${kind}`);
  svg.setAttribute('aria-hidden', 'true');
  const shape = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  shape.setAttribute('d', ICONS[kind] || ICONS.file);
  svg.append(shape);
  return svg;
}
