// Choosing rows. Without it a form's boxes are boxes; with it they are counted, and chosen many at a time: all of the page,
// a stretch with shift, the row where the keys are with x. What is chosen stays so when the list changes beneath it.
'use strict';
(() => {
  const form = document.querySelector('form[data-picks]');
  if (!form) return;
  const words = form.dataset, most = Number(words.most), shown = form.querySelector('[data-picked]'), sure = form.querySelector('[data-sure]');
  const every = form.querySelector('[data-all] input'), failed = form.querySelector('[data-failed]');
  const boxes = (root = form) => [...root.querySelectorAll('input[name="run"], input[name="unsafe"]')];
  const picked = new Map(); // by what a box names: for what it is; also of rows that have left the page
  let last;

  const tell = () => {
    const here = boxes();
    for (const box of here) {
      if (box.checked) picked.set(box.value, box);
      else picked.delete(box.value);
    }
    shown.textContent = words.count.replace('%s', picked.size + (picked.size > most ? ' > ' + most : ''));
    shown.classList.toggle('bad', picked.size > most);
    for (const button of form.querySelectorAll('[data-needs]')) {
      const fit = [...picked.values()].some((box) => button.dataset.needs === 'any' || box.dataset.for === button.dataset.needs);
      button.disabled = !fit || picked.size > most;
    }
    if (sure) sure.required = [...picked.values()].some((box) => box.name === 'unsafe');
    if (every) {
      every.checked = here.length > 0 && here.every((box) => box.checked);
      every.indeterminate = !every.checked && here.some((box) => box.checked);
      every.disabled = here.length === 0;
    }
  };
  const set = (list, checked) => { for (const box of list) box.checked = checked; tell(); };

  form.addEventListener('click', (event) => {
    const box = event.target.closest('input[name="run"], input[name="unsafe"]');
    if (!box) return;
    const list = boxes(), from = list.indexOf(last), to = list.indexOf(box);
    if (event.shiftKey && from >= 0) for (const other of list.slice(Math.min(from, to), Math.max(from, to) + 1)) other.checked = box.checked;
    last = box;
    tell();
  });
  form.addEventListener('change', tell);
  every?.addEventListener('change', () => set(boxes(), every.checked));
  failed?.addEventListener('click', (event) => {
    event.preventDefault();
    set(boxes().filter((box) => 'waits' in box.dataset), true);
  });
  form.addEventListener('formdata', (event) => {
    const sent = event.formData.getAll('run');
    for (const [value, box] of picked) if (box.name === 'run' && !sent.includes(value)) event.formData.append('run', value);
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'x' || event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input:not([type="checkbox"]), select, textarea, dialog')) return;
    const row = document.activeElement?.closest('tr') ?? form.querySelector('tr.at'), box = row && boxes(row)[0];
    if (box) { event.preventDefault(); box.click(); }
  });
  document.addEventListener('console:new', ({ detail }) => {
    for (const box of boxes(detail.root ?? detail)) box.checked = picked.has(box.value);
    queueMicrotask(tell);
  });
  window.addEventListener('pageshow', tell); // the browser may have kept the boxes
  const all = form.querySelector('[data-all]');
  if (all) all.hidden = false;
  tell();
})();
