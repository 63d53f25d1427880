// The table of a group of shards: who owns which shard, and the members.
import { aged, element, names } from './text.js';

const tones = { owned: 'good', moving: 'warn', away: 'warn', waiting: 'warn', nobody: 'bad' };
const worst = Object.keys(tones).reverse();

function table(heads, lines) {
  const row = (kind, cells) => element('tr', '', ...cells.map((cell, i) => element(kind, heads[i] === 'token' ? 'narrow' : '', ...[cell].flat())));
  return element('table', 'shards', element('thead', '', row('th', heads)), element('tbody', '', ...lines.map((cells) => row('td', cells))));
}

const orDash = (text) => (text ? names([text]) : '–');

export function shardTable({ shards, members }) {
  const inOrder = [...shards].sort((a, b) => worst.indexOf(a.state) - worst.indexOf(b.state) || (a.shard < b.shard ? -1 : 1));
  const box = element('div', '', table(['shard', 'state', 'holder', 'for', 'moves to', 'token'], inOrder.map((s) => [
    names([s.shard]), element('span', 'verdict ' + tones[s.state], s.state), orDash(s.holder), s.since ? aged(s.since) : '–',
    orDash(s.member === s.holder ? '' : s.member), s.token || '–',
  ])));
  if (members.length > 0) {
    box.append(table(['member', 'weight', 'shards', 'here for', 'says'], members.map((m) => [
      names([m.id]), String(m.weight), String(m.shards), aged(m.since), says(m),
    ])));
  }
  return box;
}

function says(m) {
  const said = [];
  if (m.leaving) said.push('leaving');
  if (m.restarting) said.push('restarting');
  if (m.refuses?.length) said.push('gave away ', ...names(m.refuses));
  return said.length > 0 ? said : '–';
}
