// A world is one run of the Go program, with a clock that the page moves. Go gets the time, timers and random numbers from the page: see
// wasm_exec.js. All three are replaced here, so that the clock stops while the program computes and jumps from timer to timer when it is
// moved, and the same link gives the same run.

const EPOCH = 1767225600000; // the wall clock at the start: 2026-01-01
const BASE = 1e9; // the monotonic clock at the start, in nanoseconds: zero is not allowed

export class World {
  now = 0; // milliseconds
  #timers = new Map(); // id -> when it is due
  #next = 1;
  #go;
  #program; // what the Go program offers: view, act, version

  static async begin(module, link) {
    const world = new World();
    const go = new Go();
    world.#go = go;
    world.#replace(go, go.importObject.gojs);
    const instance = await WebAssembly.instantiate(module, go.importObject);
    globalThis.playgroundLink = link;
    globalThis.playgroundReady = (program) => { world.#program = program; };
    go.run(instance); // returns to us when all goroutines wait
    if (typeof world.#program === 'string') throw new Error(world.#program);
    return world;
  }

  #replace(go, gojs) {
    let seed = 20260101;
    const chance = () => { // mulberry32
      seed = (seed + 0x6d2b79f5) | 0;
      let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return (t ^ (t >>> 14)) & 255;
    };
    gojs['runtime.nanotime1'] = (sp) => go.mem.setBigInt64((sp >>> 0) + 8, BigInt(BASE + Math.round(this.now * 1e6)), true);
    gojs['runtime.walltime'] = (sp) => {
      const at = EPOCH + this.now;
      go.mem.setBigInt64((sp >>> 0) + 8, BigInt(Math.floor(at / 1000)), true);
      go.mem.setInt32((sp >>> 0) + 16, Math.floor(at % 1000 * 1e6), true);
    };
    gojs['runtime.scheduleTimeoutEvent'] = (sp) => {
      const id = this.#next++;
      this.#timers.set(id, this.now + Number(go.mem.getBigInt64((sp >>> 0) + 8, true)));
      go.mem.setInt32((sp >>> 0) + 16, id, true);
    };
    gojs['runtime.clearTimeoutEvent'] = (sp) => this.#timers.delete(go.mem.getInt32((sp >>> 0) + 8, true));
    gojs['runtime.getRandomData'] = (sp) => {
      const at = Number(go.mem.getBigInt64((sp >>> 0) + 8, true)), length = Number(go.mem.getBigInt64((sp >>> 0) + 16, true));
      const bytes = new Uint8Array(go._inst.exports.mem.buffer, at, length);
      for (let i = 0; i < length; i++) bytes[i] = chance();
    };
  }

  // tick moves the clock to the next timer, if that is due by until, and runs the program until it waits.
  #tick(until) {
    let first, due = Infinity;
    for (const [id, at] of this.#timers) if (at < due) [first, due] = [id, at];
    if (due > until) return false;
    this.now = Math.max(this.now, due);
    for (let i = 0; this.#timers.has(first); i++) {
      if (i > 1000 || this.#go.exited) throw new Error('the program has ended');
      this.#go._resume();
    }
    return true;
  }

  // moveTo moves the clock, through all timers in between.
  moveTo(until) {
    while (this.#tick(until));
    this.now = Math.max(this.now, until);
  }

  // step moves the clock until something is new in the history, for ten seconds at most.
  step() {
    const version = this.#program.version(), until = this.now + 10000;
    while (this.#program.version() === version && this.#tick(until));
  }

  view(since) { return JSON.parse(this.#program.view(since)); }
  act(verb, who) { return this.#program.act(verb, who); }
}

// load fetches the program, decompresses and compiles it. progress receives the loaded fraction, from 0 to 1.
export async function load(url, progress) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
  const size = Number(answer.headers.get('content-length')) || 3.2e6;
  let come = 0;
  const counted = answer.body.pipeThrough(new TransformStream({
    transform(chunk, to) { come += chunk.length; progress(Math.min(1, come / size)); to.enqueue(chunk); },
  }));
  const program = counted.pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compileStreaming(new Response(program, { headers: { 'content-type': 'application/wasm' } }));
}
