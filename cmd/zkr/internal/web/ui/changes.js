// What zkr has seen: a list of changes, and for each queue who held it and for how long.
import { $, aged, at, clock, element, names, span } from './text.js';

const most = 500; // changes kept, as many as zkr keeps
const shown = 200; // of them in the list
const periods = 12; // of a queue
let changes = []; // the oldest first

export function forget() {
  changes = [];
  $('changes').replaceChildren();
}

export function tell(c) {
  changes = [...changes, c].slice(-most);
  const li = element('li', c.lost ? 'lost' : '');
  if (c.after) li.append(at(c.after), ' to ');
  li.append(at(c.at), ' ', ...names(c.path ? [c.path] : []), c.path ? ': ' : '', ...names(c.words.split(' → '), ' → '));
  $('changes').prepend(li);
  while ($('changes').children.length > shown) $('changes').lastChild.remove();
}

// holds lists who held a queue, the oldest first. Whether a holder has left while no zkr ran is not known.
function holds(path) {
  const list = [];
  let now;
  const end = (to) => { if (now) list.push({ ...now, to }); now = undefined; };
  for (const c of changes) {
    if (c.started) end('');
    if (c.path !== path || c.lost) continue;
    end(c.at);
    if (c.held) now = { who: c.held, from: c.at };
  }
  end('now');
  return list;
}

// timeLine draws the newest holds of a queue. A bar is as long as its hold took, against the longest one.
export function timeLine(path) {
  const list = holds(path).slice(-periods).reverse();
  if (list.length === 0) return '';
  for (const h of list) h.took = h.to === '' ? 0 : (h.to === 'now' ? Date.now() + clock.skew : Date.parse(h.to)) - Date.parse(h.from);
  const longest = Math.max(1, ...list.map((h) => h.took));
  const ol = element('ol', 'time');
  for (const h of list) {
    const bar = element('span', h.to === 'now' ? 'bar now' : 'bar');
    bar.style.width = Math.max(1, 100 * h.took / longest) + '%';
    const took = h.to === 'now' ? ['for ', aged(h.from)] : h.to === '' ? ['its end was not seen'] : ['held for ' + span(h.took)];
    ol.append(element('li', '', element('b', '', ...names(h.who)), ' ', ...took, ', from ', at(h.from), bar));
  }
  return element('section', '', element('h3', '', 'Who held it'), ol);
}
