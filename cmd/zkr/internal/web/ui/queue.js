// One queue: a row with its state and, if the row is open, the queue itself.
import { timeLine } from './history.js';
import { shardTable } from './shards.js';
import { aged, element, last, left, name, names, own, shown } from './text.js';

// verdicts are those of queues and of groups of shards, from worst to best.
export const verdicts = {
  mixed: 'bad', 'foreign node': 'bad', ghost: 'bad', exhausted: 'bad', 'no plan': 'bad', nobody: 'bad',
  'stuck behind': 'warn', 'revoke asked': 'warn', unreadable: 'warn', away: 'warn', waiting: 'warn', moving: 'warn',
  held: 'good', owned: 'good', free: 'good',
};
const order = Object.keys(verdicts);
const calm = order.indexOf('held');

// rank puts trouble first. Healthy queues stay sorted by path.
export const rank = (q) => Math.min(calm, order.indexOf(q.verdict));

const opened = new Set(); // paths; a queue that was empty for a while stays open
const most = 100; // contenders drawn in a queue: nobody reads more

// Row redraws a queue in the same list item, so that the focus is kept.
export class Row {
  constructor(queue, ask) {
    this.ask = ask; // called with a queue and a contender to delete; undefined if deleting is not allowed
    this.item = element('li', 'queue');
    this.details = element('details');
    this.summary = element('summary');
    this.details.append(this.summary);
    this.item.append(this.details);
    this.details.open = opened.has(queue.path);
    this.details.ontoggle = () => {
      opened[this.details.open ? 'add' : 'delete'](queue.path);
      this.drawLine();
    };
    this.draw(queue);
  }

  draw(queue) {
    this.queue = queue;
    const { verdict, holders, waiters, words, path, kind } = queue;
    this.summary.replaceChildren(
      element('span', 'path', ...names([path]), ' ', element('span', 'kind', kind)),
      element('span', 'verdict ' + verdicts[verdict], verdict),
      element('span', 'holder', ...holding(queue)),
      element('span', 'for', ...since(holders[0], queue.granted)),
      element('span', 'waiting', waiters.length === 0 ? '' : waiters.length + (waiters.length === 1 ? ' waits' : ' wait')),
      element('span', 'longest', ...(waiters.length === 0 ? [] : [aged(waiters[0].since)])),
    );
    this.item.className = 'queue ' + (verdicts[verdict] === 'good' ? '' : verdicts[verdict]);
    if (!queue.group && verdicts[verdict] === 'bad' || queue.unreadable) this.summary.append(element('span', 'words', ...names([words.replace(verdict + ': ', '')])));
    this.drawLine();
  }

  drawLine() {
    const focused = this.details.contains(document.activeElement) && document.activeElement.dataset.token;
    this.line?.remove();
    this.line = undefined;
    if (!this.details.open) return;
    this.time = element('div', '', timeLine(this.queue.path));
    this.line = element('div', 'inside', this.queue.group ? shardTable(this.queue.group) : line(this.queue, this.ask), this.time);
    this.details.append(this.line);
    if (focused) this.line.querySelector(`[data-token="${focused}"]`)?.focus();
  }

  // The bar of a current hold grows along with its text.
  grow() {
    if (this.details.open && this.time?.querySelector('.now')) this.time.replaceChildren(timeLine(this.queue.path));
  }
}

function holding({ holders, group, words }) {
  if (group) return [words];
  if (holders.length === 0) return [];
  const who = [...new Set(holders.map(name))], few = who.slice(0, 2);
  if (who.length > 2) few.push(who.length - 2 + ' more');
  const times = holders.length > who.length ? ` × ${holders.length}` : '';
  return [element('b', '', ...names(few)), times];
}

// A node shows when its contender joined the queue. When it was granted is known only if zkr has seen that.
function since(c, granted) {
  if (!c) return [];
  if (granted?.[c.node]) return [aged(granted[c.node])];
  const e = element('span', 'joined', '≤ ', aged(c.since));
  e.title = 'in the queue since then: zkr has not seen the grant';
  return [e];
}

// line returns the queue: its holders, followed by the waiters.
function line(queue, ask) {
  const all = [...queue.holders, ...queue.waiters, ...(queue.foreign || [])];
  const byNode = new Map(all.map((c) => [c.node, c]));
  const list = element('ol', 'line');
  for (const c of all.slice(0, most)) list.append(card(queue, c, byNode.get(c.behind), ask));
  if (all.length > most) list.append(element('li', 'card plain', all.length - most + ' more'));
  if (all.length === 0) list.append(element('li', 'card plain', queue.words));
  return list;
}

function card(queue, c, ahead, ask) {
  const foreign = c.library === 'foreign';
  const role = foreign ? 'not of a known recipe' : c.place ? 'waits, place ' + c.place : 'holds';
  const mode = ['read', 'write', 'permit'].includes(c.mode) ? ', ' + c.mode : '';
  const notes = element('span', 'notes');
  const note = (tone, ...words) => notes.append(element('span', tone, ...words));
  if (queue.granted?.[c.node]) note('', 'for ', aged(queue.granted[c.node]));
  note('', 'in the queue for ', aged(c.since));
  if (ahead) note('', 'behind ', ...names([name(ahead)]));
  if (c.node === own.node) note('good', 'this zkr; proven for ', element('span', 'left', left()));
  if (c.revoke_asked) note('warn', 'asked to release ', aged(c.revoke_asked), ' ago');
  const facts = element('dl');
  for (const [term, text] of [['token', c.token], ['session', c.session || 'none'], ['node', last(c.node)]]) {
    facts.append(element('dt', '', term), element('dd', '', ...names([text])));
  }
  const e = element('li', 'card ' + (foreign ? 'foreign' : c.place ? '' : 'holds'),
    element('span', 'role', role + mode), element('span', 'name', ...names([name(c)])), notes, facts);
  if (ask) {
    const button = element('button', '', 'break…');
    button.ariaLabel = shown('break ' + name(c));
    button.dataset.token = c.token;
    button.onclick = () => ask(queue, c);
    e.append(button);
  }
  return e;
}
