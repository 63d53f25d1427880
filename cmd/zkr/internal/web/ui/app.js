// The page keeps all queues in memory, and draws those that the filter lets through. An event carries what has changed.
import { $, age, at, clock, counted, element, names } from './text.js';
import { Row, verdicts } from './queue.js';
import { ask } from './break.js';

const queues = new Map(); // by path
const rows = new Map(); // those that are drawn, by path
const limit = 400; // queues drawn at once: a person reads no more, and a browser draws them in a moment
let view = { current: false, as_of: null, heard: 0, error: '', hidden: '' };
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

function tell(c) {
  const li = element('li', c.lost ? 'lost' : '');
  if (c.after) li.append(at(c.after), ' to ');
  li.append(at(c.at), ' ', ...names([c.path]), ': ', ...names(c.words.split(' → '), ' → '));
  $('changes').prepend(li);
  while ($('changes').children.length > 200) $('changes').lastChild.remove();
}

function state() {
  const silent = Date.now() - view.heard > 5000;
  const stale = silent || !view.current || view.error;
  $('state').className = stale ? 'stale' : '';
  document.body.className = stale ? 'outdated' : '';
  $('state').replaceChildren(element('span', '', silent ? 'no connection to zkr' : view.error ? view.error
    : view.current ? 'live' + (view.hidden ? ': ' + view.hidden : '') : view.as_of ? 'no connection to ZooKeeper: this is ' + age(view.as_of) + ' old' : 'reading'));
  for (const e of document.querySelectorAll('[data-since]')) e.textContent = age(e.dataset.since);
}

const source = new EventSource('events');
source.onmessage = (e) => {
  const m = JSON.parse(e.data);
  if (m.first) queues.clear();
  clock.skew = Date.parse(m.now) - Date.now();
  view = { current: m.current, as_of: m.as_of, heard: Date.now(), error: m.error || '', hidden: m.hidden || '' };
  breaks = Boolean(m.break);
  $('root').replaceChildren(...names([m.root]));
  if (m.first) $('changes').replaceChildren();
  for (const q of m.changed || []) {
    queues.set(q.path, q);
    rows.get(q.path)?.draw(q);
  }
  for (const path of m.gone || []) queues.delete(path);
  for (const c of m.changes || []) tell(c);
  if (m.first || m.changed || m.gone) show();
  state();
};
source.onerror = () => { view.heard = 0; state(); };

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
