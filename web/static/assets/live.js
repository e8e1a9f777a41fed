// Keeps a page current over one stream of server-sent events, which carries the page's live parts when they have changed.
// What is under the reader's eyes never moves: a change that would move something, and a new row, wait behind a button.
'use strict';
(() => {
  const bar = document.querySelector('[data-stream]');
  if (!bar || !window.TextDecoderStream) return;
  const words = bar.dataset, shown = bar.querySelector('[data-state]'), toggle = bar.querySelector('[data-toggle]'), more = bar.querySelector('[data-news]');
  const main = document.getElementById('main'), embedded = document.body.classList.contains('embed');
  const parts = new Map([...document.querySelectorAll('[data-part]')].map((el) => [el.dataset.part, el]));
  const waiting = new Map(); // by part: what it will be once the reader asks
  const quiet = 20000, longest = 30000; // the server beats every ten seconds

  // A frame of another site may have no storage: then the pause lasts as long as the page.
  const kept = {
    get paused() { try { return sessionStorage.getItem('paused') === 'yes'; } catch { return false; } },
    set paused(yes) { try { sessionStorage.setItem('paused', yes ? 'yes' : 'no'); } catch { /* as above */ } },
  };

  const say = (state) => {
    bar.dataset.is = state;
    bar.hidden = false;
    shown.parentElement.ariaLive = state === 'live' || state === 'paused' ? 'off' : 'polite';
    const text = words[state].replace('%s', new Date(heard).toLocaleTimeString(document.documentElement.lang, { hourCycle: 'h23' }));
    if (shown.textContent !== text) shown.textContent = text;
    toggle.textContent = paused ? words.resume : words.pause;
    toggle.hidden = state === 'ended';
  };

  // like makes a the same as b, keeping every node that both have: focus, hover and what is unfolded stay. Rows are the
  // same when their ids are, other nodes when they are at the same place.
  const row = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.row : undefined);
  const own = (el, name) => name === 'open' && el.nodeName === 'DETAILS';
  const like = (a, b) => {
    if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) return void a.replaceWith(b.cloneNode(true));
    if (a.nodeType !== Node.ELEMENT_NODE) return void (a.data !== b.data && a.replaceWith(b.cloneNode()));
    const at = a.classList.contains('at');
    for (const { name } of [...a.attributes]) if (!b.hasAttribute(name) && !own(a, name)) a.removeAttribute(name);
    for (const { name, value } of b.attributes) if (!own(a, name) && a.getAttribute(name) !== value) a.setAttribute(name, value);
    if (at) a.classList.add('at'); // where the keys are
    [...b.childNodes].forEach((node, i) => {
      const id = row(node), mine = id && [...a.children].find((el) => row(el) === id);
      if (mine && mine !== a.childNodes[i]) a.insertBefore(mine, a.childNodes[i]);
      const there = a.childNodes[i];
      if (!there || row(there) !== id) a.insertBefore(node.cloneNode(true), there ?? null);
      else like(there, node);
    });
    while (a.childNodes.length > b.childNodes.length) a.lastChild.remove();
  };

  // parse is what el becomes when it holds html, which was sent at a time.
  const parse = (el, { html, sent }) => {
    const next = el.cloneNode(false);
    next.innerHTML = html;
    document.dispatchEvent(new CustomEvent('console:new', { detail: { root: next, at: sent } }));
    return next;
  };

  // still notes where everything in the window is and returns a function that tells whether all that is as it was is
  // also where it was.
  const range = document.createRange();
  const place = (node) => {
    if (node.nodeType === Node.ELEMENT_NODE) return node.getBoundingClientRect();
    range.selectNodeContents(node);
    return range.getClientRects()[0];
  };
  const still = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT), list = [];
    for (let node; (node = walker.nextNode());) {
      if (node.parentElement.closest('svg')) continue; // a drawing is drawn anew where it is
      if (node.nodeType === Node.ELEMENT_NODE ? !node.matches('td, th, svg, button, input, select, textarea') : !node.data.trim()) continue;
      const { left, top, right, bottom } = place(node) ?? {};
      if (bottom > 0 && right > 0 && top < innerHeight && left < innerWidth) list.push({ node, left, top, data: node.data });
    }
    return () => list.every(({ node, left, top, data }) => {
      if (!node.isConnected || node.data !== data) return true;
      const now = place(node);
      return now && Math.abs(now.left - left) < 1 && Math.abs(now.top - top) < 1;
    });
  };

  // What begins beneath the window moves nothing that is seen, whatever it grows by.
  const beneath = (el) => el.firstElementChild?.getBoundingClientRect().top >= innerHeight;

  // show makes of el as much of next as moves nothing else, in a number of tries, and reports whether that is all of it.
  let tries = 0;
  const show = (el, next) => {
    if (el.isEqualNode(next)) return true;
    if (tries-- <= 0) return false;
    const before = el.cloneNode(true), stands = still();
    like(el, next);
    if (stands()) return true;
    like(el, before);
    const mine = [...el.children], theirs = [...next.children];
    if (mine.length > theirs.length || mine.some((x, i) => x.nodeName !== theirs[i].nodeName || row(x) !== row(theirs[i]))) return false;
    return mine.map((x, i) => show(x, theirs[i])).every(Boolean) && el.textContent === next.textContent;
  };

  const rowsOf = (el) => new Map([...el.querySelectorAll('[data-row]')].map((x) => [row(x), x]));

  // fresh counts rows of next that the reader does not see yet, and brings those they see up to date where they stand.
  const fresh = (el, next) => {
    const old = rowsOf(el), now = rowsOf(next), added = [...now.keys()].filter((id) => !old.has(id)).length;
    if (added) for (const [id, x] of now) if (old.has(id)) show(old.get(id), x);
    return { added, all: added === now.size && old.size > 0 };
  };

  const count = () => {
    const list = [...waiting.values()], rows = list.reduce((n, x) => n + x.added, 0);
    more.hidden = list.length === 0;
    more.textContent = rows ? words.more.replace('%s', rows + (list.some((x) => x.all) ? '+' : '')) : words.changed;
  };

  // Nobody presses the button of a frame that hangs on a wall.
  const unattended = () => embedded && !document.hasFocus() && !document.documentElement.matches(':hover');

  const take = ({ name, html }) => {
    const el = parts.get(name);
    if (!el) return;
    const part = { html, sent: Date.now() }, next = parse(el, part);
    tries = 24;
    waiting.delete(name);
    if (unattended() || beneath(el)) like(el, next);
    else {
      const { added, all } = fresh(el, next);
      if (added || !show(el, next)) waiting.set(name, { ...part, added, all });
    }
    count();
  };

  more.addEventListener('click', () => {
    const rows = [...waiting.values()].some((x) => x.added);
    for (const [name, part] of waiting) like(parts.get(name), parse(parts.get(name), part));
    waiting.clear();
    count();
    main.focus({ preventScroll: true });
    if (rows) window.scrollTo({ top: 0 });
  });

  let id = words.stream, paused = kept.paused, ended = false, heard = Date.now();
  let attempt, silence = 0, next = 0, wait = 1000;

  const receive = (block) => {
    const fields = Object.fromEntries(block.split('\n').map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]));
    if (fields.data) take(JSON.parse(fields.data));
    if (fields.id) id = fields.id;
  };

  const stop = () => {
    clearTimeout(silence);
    clearTimeout(next);
    attempt?.abort();
    attempt = undefined;
  };

  const again = (after) => {
    stop();
    next = setTimeout(start, after * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, longest);
  };

  // hush begins to wait for a sign of life.
  const hush = () => {
    clearTimeout(silence);
    silence = setTimeout(() => { say('stale'); again(wait); }, quiet);
  };

  const read = async (body, mine) => {
    const stream = body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const { value, done } = await stream.read();
      if (done || attempt !== mine) return;
      heard = Date.now();
      hush();
      if (bar.dataset.is !== 'live') say('live');
      text += value;
      for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) receive(text.slice(0, end));
    }
  };

  // listen opens the stream and reads it to its end. It returns how long to wait before the next, or nothing when there
  // will be none: the reader is signed out, or may not see this any more. What a proxy says of a server that is away is
  // neither.
  const listen = async (mine) => {
    const answer = await fetch(location.pathname + location.search, {
      headers: { Accept: 'text/event-stream', 'Last-Event-ID': id }, signal: mine.signal, redirect: 'manual', cache: 'no-store',
    });
    if (answer.status === 429) { say('full'); return 1000 * (Number(answer.headers.get('Retry-After')) || 30); }
    if (answer.status >= 500 || answer.status === 408) { if (Date.now() - heard > quiet) say('stale'); return wait; }
    if (!answer.ok || !answer.headers.get('Content-Type')?.startsWith('text/event-stream')) return undefined;
    wait = 1000;
    await read(answer.body, mine);
    return wait;
  };

  const start = async () => {
    if (attempt || paused || ended || document.hidden) return;
    clearTimeout(next);
    const mine = attempt = new AbortController();
    hush();
    let after = wait;
    try { after = await listen(mine); } catch { if (Date.now() - heard > quiet) say('stale'); }
    if (attempt !== mine) return; // it was stopped meanwhile
    if (after) return again(after);
    ended = true;
    stop();
    say('ended');
  };

  toggle.addEventListener('click', () => {
    kept.paused = paused = !paused;
    if (paused) { stop(); say('paused'); } else { wait = 1000; say('stale'); start(); }
  });
  document.addEventListener('visibilitychange', () => { if (document.hidden) stop(); else start(); });
  window.addEventListener('pagehide', stop);
  window.addEventListener('pageshow', start);
  if (paused) say('paused'); else start();
})();
