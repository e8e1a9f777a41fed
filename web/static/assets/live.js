// Keeps a page current over one stream of server-sent events, which carries the page's live parts when they have changed.
// What is under the reader's eyes never moves: a change that would, and a new row, waits behind a button.
'use strict';
(() => {
  const bar = document.querySelector('[data-stream]');
  if (!bar || !window.ReadableStream || !document.body.animate) return;
  const words = bar.dataset, shown = bar.querySelector('[data-state]'), pause = bar.querySelector('[data-toggle]'), more = bar.querySelector('[data-news]');
  const parts = new Map([...document.querySelectorAll('[data-part]')].map((el) => [el.dataset.part, el]));
  const waiting = new Map(); // by part: what it will be once the reader asks
  const quiet = 25000; // the server beats every ten seconds
  let id = words.stream, paused = sessionStorage.getItem('paused') === 'yes', reader, heard = 0, again = 1000, gone = false;

  const say = (state) => {
    bar.dataset.is = state;
    const text = words[state].replace('%s', heard ? new Date(heard).toLocaleTimeString(document.documentElement.lang, { hourCycle: 'h23' }) : '');
    if (shown.textContent !== text) shown.textContent = text;
    pause.textContent = paused ? words.resume : words.pause;
  };

  // like makes a the same as b, keeping every node that both have: focus, hover and what is unfolded stay.
  const like = (a, b) => {
    if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) { a.replaceWith(b.cloneNode(true)); return; }
    if (a.nodeType !== Node.ELEMENT_NODE) { if (a.data !== b.data) a.data = b.data; return; }
    const own = (name) => name === 'open' && a.nodeName === 'DETAILS' || name === 'data-seen';
    for (const { name } of [...a.attributes]) if (!b.hasAttribute(name) && !own(name) && !(name === 'class' && a.className === 'at')) a.removeAttribute(name);
    for (const { name, value } of b.attributes) {
      const kept = name === 'class' && a.classList.contains('at') ? (value + ' at').trim() : value;
      if (!own(name) && a.getAttribute(name) !== kept) a.setAttribute(name, kept);
    }
    const theirs = [...b.childNodes], mine = [...a.childNodes];
    theirs.forEach((node, i) => { if (mine[i]) like(mine[i], node); else a.append(node.cloneNode(true)); });
    mine.slice(theirs.length).forEach((node) => node.remove());
  };

  const rowsOf = (el) => new Map([...el.querySelectorAll('[data-row]')].map((row) => [row.dataset.row, row]));

  const parse = (el, html) => {
    const next = el.cloneNode(false);
    next.innerHTML = html;
    document.dispatchEvent(new CustomEvent('console:new', { detail: next }));
    return next;
  };

  // show puts next in place if nothing else moves, and reports whether it did.
  const show = (el, next) => {
    const before = el.cloneNode(true), height = document.documentElement.scrollHeight, own = el.firstElementChild?.offsetHeight;
    like(el, next);
    if (document.documentElement.scrollHeight === height && el.firstElementChild?.offsetHeight === own) return true;
    like(el, before);
    return false;
  };

  // fresh counts rows of next that the reader does not see yet, and brings those they see up to date where they stand.
  const fresh = (el, next) => {
    const old = rowsOf(el), now = rowsOf(next);
    const added = [...now.keys()].filter((key) => !old.has(key)).length;
    if (!added) return 0;
    for (const [key, row] of now) if (old.has(key)) show(old.get(key), row);
    return added;
  };

  const count = () => {
    let rows = 0;
    for (const x of waiting.values()) rows += x.rows;
    more.hidden = waiting.size === 0;
    more.textContent = rows ? words.more.replace('%s', rows) : words.changed;
  };

  const take = ({ name, html }) => {
    const el = parts.get(name);
    if (!el) return;
    const next = parse(el, html), rows = fresh(el, next);
    if (rows === 0 && show(el, next)) waiting.delete(name);
    else waiting.set(name, { html, rows });
    count();
  };

  more.addEventListener('click', () => {
    for (const [name, { html }] of waiting) like(parts.get(name), parse(parts.get(name), html));
    waiting.clear();
    count();
    document.getElementById('main').focus({ preventScroll: true });
    window.scrollTo({ top: 0 });
  });

  const receive = (block) => {
    const fields = Object.fromEntries(block.split('\n').map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]));
    if (fields.data) take(JSON.parse(fields.data));
    if (fields.id) id = fields.id;
  };

  const stop = () => { reader?.abort(); reader = undefined; };

  const start = async () => {
    if (reader || paused || gone || document.hidden) return;
    const mine = reader = new AbortController();
    try {
      const answer = await fetch(location.pathname + location.search, {
        headers: { Accept: 'text/event-stream', 'Last-Event-ID': id }, signal: mine.signal, redirect: 'manual', cache: 'no-store',
      });
      if (answer.status === 429 || answer.status === 503) throw new Error('later');
      if (!answer.ok) { gone = true; say('ended'); return; }
      heard = Date.now(); again = 1000; say('live');
      const decoder = new TextDecoder();
      let text = '';
      for (const stream = answer.body.getReader(); ;) {
        const { value, done } = await stream.read();
        if (done) break;
        heard = Date.now();
        if (bar.dataset.is !== 'live') say('live');
        text += decoder.decode(value, { stream: true });
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) receive(text.slice(0, end));
      }
    } catch { again = Math.min(again * 2, 30000); }
    if (mine.signal.aborted) return;
    reader = undefined;
    setTimeout(start, again * (0.5 + Math.random()));
  };

  pause.addEventListener('click', () => {
    paused = !paused;
    sessionStorage.setItem('paused', paused ? 'yes' : 'no');
    if (paused) { stop(); say('paused'); } else { say('stale'); start(); }
  });
  document.addEventListener('visibilitychange', () => { if (document.hidden) stop(); else start(); });
  window.addEventListener('pagehide', stop);
  window.addEventListener('pageshow', start);
  setInterval(() => {
    if (paused || gone || document.hidden || Date.now() - heard < quiet) return;
    say('stale');
    stop();
    start();
  }, 5000);
  bar.hidden = false;
  say(paused ? 'paused' : 'stale');
  start();
})();
