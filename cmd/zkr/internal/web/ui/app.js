// The page keeps all queues in memory, and draws those that the filter lets through. An event carries what has changed.
import { $, age, aged, at, clock, counted, element, left, names, own, span } from './text.js';
import { follow } from './stream.js';
import { Row, verdicts } from './queue.js';
import { ask } from './break.js';
import { forget, tell } from './changes.js';

const queues = new Map(); // by path
const rows = new Map(); // those that are drawn, by path
const limit = 400; // queues drawn at once: a person reads no more, and a browser draws them in a moment
let view = {}; // the newest message
let breaks = false; // zkr deletes contenders if it is asked with the key

function lets(q) {
  if ($('verdict').value && q.verdict !== $('verdict').value) return false;
  if ($('waited').checked && q.waiters.length === 0) return false;
  const text = $('filter').value.trim().toLowerCase();
  if (!text) return true;
  const all = [q.path, q.kind, q.words];
  for (const c of [...q.holders, ...q.waiters]) all.push(c.id, c.host, c.token, c.session, c.node);
  return all.join(' ').toLowerCase().includes(text);
}

function show() {
  const wanted = [...queues.values()].filter(lets).sort((a, b) => (a.path < b.path ? -1 : 1));
  const some = wanted.slice(0, limit);
  const keep = new Set(some.map((q) => q.path));
  for (const [path, row] of rows) if (!keep.has(path)) { row.item.remove(); rows.delete(path); }
  let next = $('queues').firstChild;
  for (const q of some) {
    if (!rows.has(q.path)) rows.set(q.path, new Row(q, breaks && ask));
    const item = rows.get(q.path).item;
    if (item === next) next = next.nextSibling;
    else $('queues').insertBefore(item, next);
  }
  $('count').textContent = (wanted.length === queues.size ? '' : wanted.length + ' of ') + counted(queues.size, 'queue');
  $('more').textContent = wanted.length > limit ? (wanted.length - limit) + ' more: use the filter' : '';
}

// standing is what is to be said of the connections: a word, and what explains it.
function standing() {
  if (link.lost && view.full) return ['not shown', names([view.full])];
  if (link.lost && !view.now) return ['connecting', []];
  if (link.lost) {
    const next = link.next ? ', next try in ' + span(link.next - Date.now() + 999) : ', trying';
    return ['no connection to zkr', ['since ', at(link.lost), ', ' + span(Date.now() - link.lost) + ' ago' + next + '. The page shows what was there then.']];
  }
  if (view.error) return ['not shown', names([view.error])];
  if (view.lost) {
    const old = view.as_of ? ['. The page shows what was there ', aged(view.as_of), ' ago.'] : [];
    return ['no connection to ZooKeeper', ['since ', at(view.lost), view.cause ? ': ' : '', ...names(view.cause ? [view.cause] : []), ...old]];
  }
  if (!view.current) return ['reading', []];
  return ['live', names([view.server ? 'from ' + view.server : '', view.hidden || ''].filter(Boolean), '. ')];
}

function state() {
  const [word, detail] = standing();
  const live = word === 'live';
  $('state').className = document.body.className = live ? '' : 'stale';
  if ($('state').textContent !== word) $('state').textContent = word; // a screen reader speaks each change
  $('detail').replaceChildren(...detail);
  for (const e of document.querySelectorAll('.left')) e.textContent = left();
  for (const e of document.querySelectorAll('[data-since]')) e.textContent = age(e.dataset.since);
  for (const row of rows.values()) row.grow();
}

function hear(m) {
  clock.skew = Date.parse(m.now) - Date.now();
  view = m;
  breaks = Boolean(m.break);
  $('root').replaceChildren(...names([m.root]));
  if (m.first) {
    queues.clear();
    forget();
  }
  const elected = own.node !== (m.own?.node || '');
  own.node = m.own?.node || '';
  own.until = Date.parse(m.own?.valid_until);
  if (elected) for (const row of rows.values()) row.drawLine();
  for (const c of m.changes || []) tell(c);
  for (const q of m.changed || []) {
    queues.set(q.path, q);
    rows.get(q.path)?.draw(q);
  }
  for (const path of m.gone || []) queues.delete(path);
  if (m.first || m.changed || m.gone) show();
  state();
}

const link = follow('events', hear, () => state());

// The arrows lead from queue to queue, and the slash to the filter.
document.onkeydown = (e) => {
  if (e.key === '/' && !e.target.matches('input:not([type=checkbox])') && !$('break').open) {
    e.preventDefault();
    $('filter').focus();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step || !e.target.matches('summary, #filter')) return;
  const stops = [$('filter'), ...document.querySelectorAll('summary')];
  stops[stops.indexOf(e.target) + step]?.focus();
  e.preventDefault();
};
for (const verdict of Object.keys(verdicts)) if (verdict !== 'free') $('verdict').append(element('option', '', verdict));
$('filters').oninput = show;
$('filters').onsubmit = (e) => e.preventDefault();
setInterval(state, 1000);
