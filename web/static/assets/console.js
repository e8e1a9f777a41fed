// Comfort for readers with a script; every page says and does the same without it.
'use strict';
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Times: the server wrote UTC; show the viewer's zone and keep UTC in the title.
  const parts = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  const clock = new Intl.DateTimeFormat('en-CA', parts);
  const zone = new Intl.DateTimeFormat('en', { timeZoneName: 'shortOffset' });
  const zoneOf = (date) => zone.formatToParts(date).find((p) => p.type === 'timeZoneName').value.replace('GMT', 'UTC').replace(/\+0$/, '');
  const local = (date) => clock.format(date).replace(', ', ' ') + ' ' + zoneOf(date);
  // A sentence, a drawing and its title cannot hold a time of their own: they say it in UTC, marked with data-times. A time of day is
  // the nearest one.
  const written = /(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d)(:\d\d)? UTC/g;
  const nearest = (minute) => {
    const date = new Date(new Date().toISOString().slice(0, 11) + minute + 'Z');
    return new Date(date.getTime() + 86400000 * Math.round((Date.now() - date) / 86400000));
  };
  const own = (text) => text.replace(written, (_, day, minute, second = '') => {
    const date = day ? new Date(day + 'T' + minute + second + 'Z') : nearest(minute);
    return day ? local(date) : local(date).slice(11, 16) + ' ' + zoneOf(date);
  });
  const words = document.getElementById('words').dataset;
  const say = (message, word) => message.replace('%s', word);

  // Relative times grow older with the page. The server's clock said how long ago it was when it said so; only what has
  // passed since is added. data-as says it in other words: so far, or left, which stops at nothing.
  const steps = [[86400, words.d], [3600, words.h], [60, words.min], [1, words.s]];
  const span = (seconds) => {
    const at = steps.findIndex(([size]) => seconds >= size);
    if (at < 0) return say(words.s, 0);
    const [size, unit] = steps[at], next = steps[at + 1];
    const whole = say(unit, Math.floor(seconds / size)), rest = next && at < 2 ? Math.floor((seconds % size) / next[0]) : 0;
    return rest ? whole + ' ' + say(next[1], rest) : whole;
  };
  const age = (root = document) => {
    for (const el of all('[data-when]', root)) {
      const ago = (Date.now() - el.dataset.when) / 1000, { as } = el.dataset;
      const text = as ? say(as, span(Math.max(0, Number(el.dataset.ago) < 0 ? -ago : ago)))
        : Math.abs(ago) < 1 ? words.now : ago > 0 ? say(words.ago, span(ago)) : say(words.in, span(-ago));
      if (el.textContent !== text) el.textContent = text;
    }
    for (const el of all('[data-ends]', root)) { // a bar drains as its claim runs out
      el.setAttribute('width', Math.max(0, Math.min(100, (el.dataset.ends - Date.now()) / 10 / el.dataset.of)).toFixed(2) + '%');
    }
  };
  const localise = (root, said) => {
    for (const el of all('[data-ago]', root)) el.dataset.when = said - Number(el.dataset.ago) * 1000;
    for (const el of all('[data-drains]', root)) el.dataset.ends = said + Number(el.dataset.drains) * 1000;
    for (const el of all('time[datetime]:not([data-zone])', root)) {
      const date = new Date(el.dateTime);
      if (Number.isNaN(date.getTime()) || el.title) continue;
      el.title = el.textContent;
      el.textContent = local(date);
    }
    for (const el of all('[data-times]', root)) {
      if (el.ariaLabel) el.ariaLabel = own(el.ariaLabel);
      else for (const node of el.childNodes) if (node.nodeType === Node.TEXT_NODE) node.data = own(node.data);
    }
    for (const el of all('[data-viewer-zone]', root)) {
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      if (el.dataset.viewerZone.split(' ').includes(/^(Etc\/)?(UTC|UCT|GMT|Zulu|Universal|Greenwich)$/.test(zone) ? 'UTC' : zone)) continue; // it has a column
      el.textContent = say(words.you, zone);
      el.closest('table')?.classList.add('has-viewer');
    }
    if (navigator.clipboard) for (const button of all('button[data-copy]', root)) button.hidden = false;
    age(root);
  };
  localise(document, Date.now());
  setInterval(() => { if (!document.hidden) age(); }, 1000);
  document.addEventListener('visibilitychange', () => age());
  document.addEventListener('console:new', ({ detail }) => localise(detail.root, detail.at)); // what live.js was sent

  // Copy buttons are hidden without a script, or without a clipboard to copy to.
  document.addEventListener('click', async (event) => {
    const button = event.target.closest('button[data-copy]');
    if (!button || button.dataset.name) return;
    button.dataset.name = button.textContent;
    try { await navigator.clipboard.writeText(button.dataset.copy || location.href); button.textContent = words.copied; } catch { button.textContent = words.uncopied; }
    setTimeout(() => { button.textContent = button.dataset.name; delete button.dataset.name; }, 1500);
  });

  // What is chosen in a row that a small screen does not hold is in view.
  for (const row of all('.views, .chips')) {
    const here = row.querySelector('[aria-current]');
    if (here) row.scrollLeft = here.offsetLeft + here.offsetWidth - row.offsetLeft - row.clientWidth;
  }

  // A changed select filters at once; a form field left empty stays out of the URL.
  for (const form of all('form.filters')) {
    form.addEventListener('change', (event) => { if (event.target.matches('select')) form.requestSubmit(); });
    form.addEventListener('formdata', (event) => {
      const wall = all('[data-moment]', form).some(({ value }) => /\d:\d|^\d{4}-|day|天/.test(value) && !/(z|[+-]\d\d:\d\d)$/i.test(value.trim()));
      event.formData.set('zone', wall ? Intl.DateTimeFormat().resolvedOptions().timeZone ?? '' : ''); // a time on the reader's own clock
      for (const [name, value] of [...event.formData]) if (value === '') event.formData.delete(name);
    });
  }

  // A verification runs out. The server says how many seconds are left, again whenever the page comes back to the front;
  // the countdown between is this page's own. What became of a form that was sent only the server can say, and its own page
  // says it: also when there is no countdown any more.
  const proof = document.querySelector('[data-left]');
  if (proof) {
    const shown = proof.querySelector('[data-clock]'), status = proof.querySelector('[data-say]');
    let ends = Date.now() + Number(proof.dataset.left) * 1000, said = Infinity, timer = 0, sent = false;
    const over = () => {
      clearInterval(timer);
      const reason = document.querySelector('[data-until] textarea'), kept = document.querySelector('[data-over] textarea');
      if (reason && kept) kept.value = reason.value;
      for (const el of all('[data-until]')) el.hidden = true;
      document.querySelector('[data-over]').hidden = false;
      status.textContent = words.expired;
    };
    const tick = () => {
      const left = Math.max(0, Math.ceil((ends - Date.now()) / 1000));
      shown.textContent = Math.floor(left / 60) + ':' + String(left % 60).padStart(2, '0');
      proof.classList.toggle('late', left <= 60);
      if (left <= 60 && said > 60) status.textContent = words.minute;
      said = left;
      if (left === 0 && !sent) over();
    };
    const look = async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch(location.href, { headers: { Accept: 'text/html' } });
        if (!answer.ok) return; // it says nothing of the verification
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const fresh = page.querySelector('[data-left]');
        if (answer.redirected || !fresh) { location.reload(); return; }
        ends = Date.now() + Number(fresh.dataset.left) * 1000;
        tick();
      } catch { /* offline: the countdown goes on */ }
    };
    document.addEventListener('visibilitychange', look);
    document.addEventListener('submit', () => { sent = true; });
    window.addEventListener('pageshow', (event) => { // the browser kept the page
      if (!event.persisted) return;
      if (sent) location.reload(); else look();
    });
    timer = setInterval(tick, 1000);
  }

  // Keys.
  let going = 0;
  const move = (by) => {
    const rows = all('tbody tr:has(a)'), was = rows.findIndex((row) => row.classList.contains('at'));
    if (!rows.length) return;
    rows[was]?.classList.remove('at');
    const at = Math.max(0, Math.min(rows.length - 1, was + by));
    rows[at].classList.add('at');
    rows[at].querySelector('a').focus();
    rows[at].scrollIntoView({ block: 'nearest' });
  };
  const help = document.getElementById('keys');
  const keys = {
    '/': () => (document.querySelector('main [data-search]') ?? document.querySelector('[data-search]'))?.focus(),
    '?': () => help?.showModal(),
    '.': () => document.querySelector('[data-news]:not([hidden])')?.click(),
    j: () => move(1),
    k: () => move(-1),
    g: () => { going = Date.now(); },
  };
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, dialog')) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const link = all('[data-key]').find((a) => a.dataset.key === event.key);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
