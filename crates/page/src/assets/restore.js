// Restoring a file or a folder to this machine, if the server allows it.
import { count, el, get, post, readable, size } from './tools.js';

export function restoreDialog(state, snapshot, parts) {
  const name = parts.length ? readable(parts[parts.length - 1]) : 'all of the snapshot';
  const target = el('input', { type: 'text', required: true, placeholder: '/home/me/restored', 'aria-label': 'Folder', spellcheck: 'false' });
  const note = el('p', { class: 'faint', role: 'status' }, 'The folder may be new. Nothing that exists is overwritten.');
  const start = el('button', { class: 'main' }, 'Restore');
  let timer;
  const dialog = el('dialog', { class: 'restore', onclose: () => { clearTimeout(timer); dialog.remove(); } },
    el('h2', {}, `Restore ${name}`),
    el('form', { onsubmit: (event) => { event.preventDefault(); begin(); } },
      el('label', {}, 'To the folder', target), note,
      el('div', { class: 'tools' }, start, el('button', { type: 'button', onclick: () => dialog.close() }, 'Close'))));
  const follow = async () => {
    const run = await get('/api/restore');
    const done = `${count(run.files, 'file')} (${size(run.bytes)})`;
    if (run.state === 'running') {
      note.textContent = `Restored ${done} so far`;
      timer = setTimeout(follow, 400);
      return;
    }
    start.disabled = false;
    note.className = run.problems.length || run.message ? 'problem' : 'good';
    note.textContent = run.message || `Restored ${done} to ${run.target}. ${run.problems.length ? `${count(run.problem_count, 'problem')}:` : ''}`;
    dialog.querySelector('ul')?.remove();
    if (run.problems.length) note.after(el('ul', { class: 'problems' }, run.problems.map((it) => el('li', {}, it))));
  };
  const begin = async () => {
    start.disabled = true;
    try {
      const path = parts.map((part) => `/${part}`).join('');
      await post('/api/restore', state.session.proof, { snapshot: snapshot.id, path, target: target.value });
      await follow();
    } catch (error) {
      start.disabled = false;
      note.className = 'problem';
      note.textContent = error.message;
    }
  };
  document.body.append(dialog);
  dialog.showModal();
  target.focus();
}
