// Details of a file: a preview, its versions, and what can be done with it.
import { address, ago, count, el, failed, get, path, readable, size, time } from './tools.js';
import { restoreDialog } from './restore.js';

/** Returns the preview of a file. Whatever it contains is set as text, or is a checked picture. */
function preview(file, snapshot, link) {
  const found = file.preview;
  if (!found) return null;
  switch (found.kind) {
    case 'empty': return el('p', { class: 'wait' }, 'The file is empty.');
    case 'picture': return el('img', {
      class: 'picture', alt: `Preview of ${file.name}`, src: address('/api/picture', { snapshot: snapshot.id }, path(link)),
      onerror: (event) => event.target.replaceWith(el('p', { class: 'problem' }, 'The picture cannot be shown.')),
    });
    case 'text': return el('div', {}, el('pre', { class: 'text', tabindex: '0' }, found.text),
      found.cut ? el('p', { class: 'wait' }, 'The beginning is shown.') : null);
    case 'bytes': return el('pre', { class: 'text bytes', tabindex: '0' }, found.text);
    default: return el('p', { class: 'problem' }, found.message || 'The file cannot be shown.');
  }
}

function versions(box, snapshot, link) {
  const list = el('ol', { class: 'versions' }, el('li', { class: 'wait' }, 'Looking through the snapshots'));
  box.append(el('h3', {}, 'Versions'), list);
  get('/api/versions', { snapshot: snapshot.id }, path(link)).then(({ versions: found }) => {
    list.replaceChildren(...found.map((version, at) => {
      const older = found[at + 1];
      const is = version.snapshots.includes(snapshot.id);
      return el('li', { class: is ? 'is' : '' },
        el('a', { href: `#/browse/${version.snapshots[0]}/${link.replace(/\/?[^/]*$/, '')}?file=${encodeURIComponent(link.split('/').pop())}` },
          time(version.time)),
        el('span', {}, size(version.size)),
        el('span', { class: 'faint' }, `in ${count(version.snapshots.length, 'snapshot')}`),
        older ? el('a', { href: `#/diff/${older.snapshots[0]}/${version.snapshots[0]}/${link}` }, 'compare') : null);
    }));
  }).catch((error) => list.replaceChildren(failed(error)));
}

export async function details({ state, snapshot, parts, close }) {
  const link = parts.join('/');
  const box = el('div', { class: 'inner' });
  const name = readable(parts[parts.length - 1]);
  box.append(el('div', { class: 'details-head' }, el('h2', {}, name),
    el('button', { class: 'plain', 'aria-label': 'Close details', onclick: close }, '\u00d7')));
  try {
    const file = await get('/api/file', { snapshot: snapshot.id }, path(link));
    box.querySelector('h2').textContent = file.name;
    const facts = [
      file.size !== undefined && ['Size', `${size(file.size)}${file.size >= 1024 ? ` (${file.size.toLocaleString('en')} B)` : ''}`],
      file.target !== undefined && ['Target', file.target],
      ['Modified', file.time === null ? '' : `${time(file.time)}, ${ago(file.time)}`],
      ['Owner', `${file.user}:${file.group}, mode ${file.mode}`],
      file.links > 1 && ['Names', String(file.links)],
      file.xattrs.length > 0 && ['Attributes', file.xattrs.join(', ')],
    ].filter((fact) => fact && fact[1]);
    if (file.kind === 'file') {
      box.append(el('div', { class: 'tools' },
        el('a', { class: 'button main', href: address('/api/download', { snapshot: snapshot.id }, path(link)), download: true }, 'Download'),
        state.session.may_restore ? el('button', { onclick: () => restoreDialog(state, snapshot, parts) }, 'Restore\u2026') : null));
    }
    if (file.defect) box.append(el('p', { class: 'problem' }, file.defect));
    box.append(preview(file, snapshot, link) || '',
      el('dl', { class: 'facts' }, facts.map(([term, value]) => [el('dt', {}, term), el('dd', {}, value)])));
    if (file.kind === 'file') versions(box, snapshot, link);
  } catch (error) {
    box.append(failed(error));
  }
  return box;
}
