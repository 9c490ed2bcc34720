/**
 * How the caller and the workers pass commands, through words at the bottom of the shared memory.
 *
 * The caller appends commands to a ring. One command at a time is current; workers claim its chunks one by
 * one. The worker that finishes the last chunk makes the next command current, or puts the baton (`busy`)
 * down if there is none. If the next one is not worth sharing, it keeps the baton and runs that itself. A caller
 * that publishes a command and finds the baton free picks it up. Commands are numbered by a 32-bit sequence
 * that wraps around; differences stay exact.
 *
 * A command may be a list of commands that lie elsewhere in the memory. They become current one after the other, by the
 * worker that finishes the one before; for the caller they are one command. The slots of a list are written by earlier
 * commands, or while nothing is under way, and so before any of the words that lead to them.
 *
 * The words are accessed with sequentially consistent atomics (except those of slots and faults, which
 * `published` and `fault` guard), so a thread that loads a value sees everything that was written before it
 * was stored. That suffices:
 * - A slot, and bytes that the caller stores for a command, are written before `published` moves past the
 *   slot. The slot is written again only after `completed` has moved past it; until then nobody writes there.
 * - The writes of a chunk come before it is subtracted from `unfinished`. The thread that subtracts the last
 *   one has therefore seen them all before it stores `completed`, for the caller, and then `remaining`, for
 *   those who claim chunks of the next command.
 * - A thread that makes a command current stores `remaining` and then reads how many workers are `free`. A
 *   worker that goes to sleep is first taken off that count and then looks once more. So those that were
 *   counted see the command, and only the missing ones are woken.
 * - A claim relies on no earlier load except the number of the chunk: a command cannot end, nor its slot
 *   change, while one of its chunks is claimed.
 */

/** Places of 32-bit words in the memory. What different sides write lies in different cache lines. */
export const words = {
  /** Commands appended so far. Written by the caller. */
  published: 16,
  /** Chunks of the current command that nobody has claimed. Claiming is a compare-and-swap. */
  remaining: 32,
  /** Chunks of the current command that are not finished. */
  unfinished: 48,
  /** Where the current command, or the current one of a list, stands: the index of its slot's first word. Fixed while `unfinished` is positive. */
  slot: 49,
  /** How many workers the current command, or the last one, keeps busy. */
  helpers: 50,
  /** Commands of the current list from the current one on; 1 if the current command is no list. */
  steps: 51,
  /** Commands finished so far. */
  completed: 64,
  /** 1 while a command is current, a worker runs some by itself, or a thread is making one current. */
  busy: 65,
  /** Changes whenever sleeping workers are woken. */
  signal: 80,
  /** Workers that sleep or are about to. */
  sleepers: 81,
  /** Workers that are awake and have no chunk. They look for work once more before they sleep. */
  free: 82,
  /** Those of them that look for work for some time. */
  lookers: 83,
  /** The largest number of lookers: the caller needs a processor too. Fixed. */
  mostLookers: 84,
  /** The caller wants a message when `completed` reaches this number ... */
  wanted: 96,
  /** ... if this is 1. */
  asked: 97,
  /** 1 if the workers must return. */
  closing: 98,
  /** 0, or the state of the report of the first fault that the caller has not seen. */
  fault: 112,
  /** Index of the kernel that failed. */
  faultKernel: 113,
  /** Bytes of the message, which starts in the next word. */
  faultLength: 114,
  faultText: 115,
} as const;

const faultTextBytes = 256;
const faultFree = 0;
const faultWriting = 1;
const faultReady = 2;

/** Commands in the ring; a power of two, so that the numbering may wrap around. */
export const ringSlots = 512;
/**
 * A slot: the index of the kernel, the number of chunks, how many workers are worth waking, the parameter block. If
 * `steps` is not 0, the command is a list of as many commands, whose slots lie one after the other from the address in `chunks`
 * on.
 */
export const slotBytes = 256;
const slotWords = { kernel: 0, chunks: 1, helpers: 2, steps: 3, block: 4 } as const;
const ringByteOffset = 1024;

/** Scratch and heap start at this address. */
export const controlBytes: number = ringByteOffset + ringSlots * slotBytes;

/** Numbering starts shortly before it wraps around, so that every run meets the wrap. */
export const firstSequence = 0x7fffff00;

/** Whether command number `a` comes at or after `b`. */
export function reached(a: number, b: number): boolean {
  return ((a - b) | 0) >= 0;
}

function slotByteOffset(sequence: number): number {
  return ringByteOffset + (sequence & (ringSlots - 1)) * slotBytes;
}

/**
 * Returns the words of the memory, at least up to this one. Lists may lie in memory that came to it later, of which
 * each thread hears in its own time.
 */
export type Reach = (control: Int32Array, word: number) => Int32Array;

/** For a memory that may grow. */
export function reachInto(memory: Pick<WebAssembly.Memory, "buffer">): Reach {
  let view: Int32Array | undefined;
  return (control, word) => {
    if (word < control.length) return control;
    while (view === undefined || word >= view.length) view = new Int32Array(memory.buffer);
    return view;
  };
}

const noFurther: Reach = (control) => control;

/** `processors`: threads that the machine runs at the same time. */
export function initialise(control: Int32Array, processors: number): void {
  Atomics.store(control, words.mostLookers, Math.max(1, processors - 1));
  for (const word of ["published", "completed", "wanted"] as const)
    Atomics.store(control, words[word], firstSequence);
}

/** The contents of a slot of the ring. */
export interface Command {
  /** Index of the kernel. */
  readonly kernel: number;
  readonly chunks: number;
  /** How many workers gain by taking part; 0 if the one that comes to it should run it by itself. No more are woken for it. */
  readonly helpers: number;
  /** The parameter block. */
  readonly block: readonly number[];
}

/** Writes a command to the slot that starts at this word. */
export function writeSlot(view: Int32Array, slot: number, { kernel, chunks, helpers, block }: Command): void {
  view[slot + slotWords.kernel] = kernel;
  view[slot + slotWords.chunks] = chunks;
  view[slot + slotWords.helpers] = helpers;
  view[slot + slotWords.steps] = 0;
  for (let i = 0; i < block.length; i++) view[slot + slotWords.block + i] = block[i]!;
}

/**
 * Returns the address of a parameter block that nobody uses as long as all commands have finished and none is appended: that
 * of the next command.
 */
export function idleBlock(control: Int32Array): number {
  return slotByteOffset(Atomics.load(control, words.published)) + 4 * slotWords.block;
}

/** Appends a command; there must be room. */
export function publish(control: Int32Array, command: Command, reach: Reach = noFurther): void {
  const sequence = Atomics.load(control, words.published);
  writeSlot(control, slotByteOffset(sequence) / 4, command);
  publishNext(control, sequence, reach);
}

/** Several commands in the memory, to be carried out as if they were one. */
export interface List {
  /** Of the first slot; a multiple of 4. */
  readonly address: number;
  /** At least 1. */
  readonly steps: number;
  /** The largest number of any of the commands. */
  readonly helpers: number;
}

/** Appends a list, whose slots are in place when its turn comes; there must be room. */
export function publishList(control: Int32Array, { address, steps, helpers }: List, reach: Reach): void {
  const sequence = Atomics.load(control, words.published);
  const slot = slotByteOffset(sequence) / 4;
  control[slot + slotWords.chunks] = address;
  control[slot + slotWords.helpers] = helpers;
  control[slot + slotWords.steps] = steps;
  publishNext(control, sequence, reach);
}

function publishNext(control: Int32Array, sequence: number, reach: Reach): void {
  Atomics.store(control, words.published, (sequence + 1) | 0);
  if (Atomics.compareExchange(control, words.busy, 0, 1) === 0) startNext(control, reach);
}

/** Makes the next command current, or puts the baton down. Called by the holder of the baton. */
function startNext(control: Int32Array, reach: Reach): void {
  const slot = takeNext(control);
  if (slot === undefined) return;
  const first = firstStep(control, slot);
  start(control, reach(control, first + slotWords.helpers), first, stepsOf(control, slot));
}

/** Returns the slot of the next command, or puts the baton down and returns undefined. Called by the holder of the baton. */
function takeNext(control: Int32Array): number | undefined {
  for (;;) {
    const next = Atomics.load(control, words.completed);
    if (Atomics.load(control, words.published) !== next) return slotByteOffset(next) / 4;
    Atomics.store(control, words.busy, 0);
    // A command published just before the baton became free found it taken: look once more. One published
    // from here on finds it free.
    if (Atomics.load(control, words.published) === Atomics.load(control, words.completed)) return undefined;
    if (Atomics.compareExchange(control, words.busy, 0, 1) !== 0) return undefined;
  }
}

/** The slot of a command, or of the first one of its list. */
function firstStep(control: Int32Array, slot: number): number {
  return control[slot + slotWords.steps] === 0 ? slot : (control[slot + slotWords.chunks]! >>> 0) / 4;
}

function stepsOf(control: Int32Array, slot: number): number {
  return Math.max(1, control[slot + slotWords.steps]!);
}

/** Makes the command in a slot of `view` current. `steps`: it and those after it in its list. */
function start(control: Int32Array, view: Int32Array, slot: number, steps: number): void {
  const chunks = view[slot + slotWords.chunks]!;
  const helpers = Math.max(1, view[slot + slotWords.helpers]!);
  Atomics.store(control, words.slot, slot);
  // These seldom change, and only the holder of the baton writes them. A look is cheaper than a store: the two take 10 ns.
  if (Atomics.load(control, words.steps) !== steps) Atomics.store(control, words.steps, steps);
  if (Atomics.load(control, words.helpers) !== helpers) Atomics.store(control, words.helpers, helpers);
  Atomics.store(control, words.unfinished, chunks);
  Atomics.store(control, words.remaining, chunks);
  wake(control, helpers);
}

/** Ensures that this many workers come to look for work: wakes those that are missing. */
function wake(control: Int32Array, workers: number): void {
  const missing = workers - Atomics.load(control, words.free);
  if (missing <= 0 || Atomics.load(control, words.sleepers) === 0) return;
  Atomics.add(control, words.signal, 1);
  Atomics.notify(control, words.signal, missing);
}

/** Makes all workers return as soon as they have finished the chunk in hand. */
export function close(control: Int32Array): void {
  Atomics.store(control, words.closing, 1);
  Atomics.add(control, words.signal, 1);
  Atomics.notify(control, words.signal);
}

/**
 * How long a worker without work looks for some before it sleeps: about as long as the caller takes from the
 * end of one command to the next. A longer time would keep other threads from the processor, if the scheduler
 * has put the worker beside one of them.
 */
const spinMilliseconds = 0.01;
/**
 * The same while a command for several workers is only a few places ahead in the ring: waking the worker for
 * it would take the thread that starts the command 13 us, and the worker some more until it is up.
 */
const spinMillisecondsAhead = 0.1;
const commandsAhead = 16;
/**
 * How long the caller looks for the end of small work before it sleeps. A read after one small operation
 * takes 9 us instead of 31, on a machine with two processors.
 */
const spinMillisecondsOfCaller = 0.03;
/** Looks between two looks at the clock. */
const spinRounds = 64;

export type RunChunk = (kernel: number, block: number, chunk: number) => void;

/**
 * The main loop of a worker: claims chunks and runs them until the queue closes. `tellCaller` sends the
 * message that the caller asked for.
 */
export function work(
  control: Int32Array,
  run: RunChunk,
  tellCaller: () => void,
  reach: Reach = noFurther,
): void {
  Atomics.add(control, words.free, 1);
  while (Atomics.load(control, words.closing) === 0) {
    const remaining = Atomics.load(control, words.remaining);
    if (remaining === 0) {
      waitForWork(control);
      continue;
    }
    // If the command whose `remaining` was read has ended meanwhile, this claims a chunk of the current one, which
    // is just as good: all else is read after the claim, and no command can end while one of its chunks is claimed.
    if (Atomics.compareExchange(control, words.remaining, remaining, remaining - 1) !== remaining) continue;
    Atomics.sub(control, words.free, 1);
    const slot = Atomics.load(control, words.slot);
    const view = reach(control, slot + slotBytes / 4 - 1);
    runChunk(control, view, slot, view[slot + slotWords.chunks]! - remaining, run);
    // Before the command can end: the next one must find this worker counted, or it wakes another.
    Atomics.add(control, words.free, 1);
    if (Atomics.sub(control, words.unfinished, 1) === 1) goOn(control, slot, run, tellCaller, reach);
  }
}

function runChunk(control: Int32Array, view: Int32Array, slot: number, chunk: number, run: RunChunk): void {
  const kernel = view[slot + slotWords.kernel]!;
  try {
    run(kernel, 4 * (slot + slotWords.block), chunk);
  } catch (error) {
    reportFault(control, kernel, error);
  }
}

/**
 * Goes on from the current command, which is finished, to the next one. Commands that are not worth sharing are run here and
 * never become current: in a list of small ones each takes 70 ns in place of 350.
 */
function goOn(
  control: Int32Array,
  finished: number,
  run: RunChunk,
  tellCaller: () => void,
  reach: Reach,
): void {
  let slot = finished;
  let steps = Atomics.load(control, words.steps);
  while (Atomics.load(control, words.closing) === 0) {
    steps -= 1;
    let isWanted = false;
    if (steps > 0) slot += slotBytes / 4;
    else {
      const completed = (Atomics.load(control, words.completed) + 1) | 0;
      Atomics.store(control, words.completed, completed);
      isWanted = callerWants(control, completed);
      // For a caller that waits for the word that has just changed, and cannot take messages.
      if (isWanted) Atomics.notify(control, words.asked);
      const next = takeNext(control);
      if (next === undefined) {
        if (isWanted) tellCaller();
        return;
      }
      slot = firstStep(control, next);
      steps = stepsOf(control, next);
    }
    const view = reach(control, slot + slotBytes / 4 - 1);
    const isShared = view[slot + slotWords.helpers] !== 0;
    if (isShared) start(control, view, slot, steps);
    if (isWanted) tellCaller();
    if (isShared) return;
    const chunks = view[slot + slotWords.chunks]!;
    for (let chunk = 0; chunk < chunks; chunk++) runChunk(control, view, slot, chunk, run);
  }
}

function waitForWork(control: Int32Array): void {
  // More lookers than recent commands can use would only slow down others, first of all the caller.
  const most = Math.min(Atomics.load(control, words.mostLookers), Atomics.load(control, words.helpers));
  const found = Atomics.add(control, words.lookers, 1) < most && lookForWork(control);
  Atomics.sub(control, words.lookers, 1);
  if (found) return;
  Atomics.sub(control, words.free, 1);
  Atomics.add(control, words.sleepers, 1);
  // Read before the last look: a wake after it changes the signal, and wait() returns at once.
  const signal = Atomics.load(control, words.signal);
  if (!hasWork(control)) Atomics.wait(control, words.signal, signal);
  Atomics.sub(control, words.sleepers, 1);
  Atomics.add(control, words.free, 1);
}

function lookForWork(control: Int32Array): boolean {
  const start = performance.now();
  let waited = 0;
  do {
    for (let i = 0; i < spinRounds; i++) if (hasWork(control)) return true;
    waited = performance.now() - start;
  } while (waited < spinMilliseconds || (waited < spinMillisecondsAhead && sharedWorkIsAhead(control)));
  return false;
}

/** Whether one of the next commands after the current one is worth several workers. */
export function sharedWorkIsAhead(control: Int32Array): boolean {
  const completed = Atomics.load(control, words.completed);
  const ahead = Math.min(commandsAhead, (Atomics.load(control, words.published) - completed) | 0);
  // A slot that has ended meanwhile, and may have been rewritten, misleads for one look only.
  for (let i = 1; i < ahead; i++)
    if (control[slotByteOffset(completed + i) / 4 + slotWords.helpers]! > 1) return true;
  // Within a list, any of its commands may be: it has as many helpers as the one that has most.
  return (
    Atomics.load(control, words.steps) > 1 && control[slotByteOffset(completed) / 4 + slotWords.helpers]! > 1
  );
}

function hasWork(control: Int32Array): boolean {
  return Atomics.load(control, words.remaining) !== 0 || Atomics.load(control, words.closing) !== 0;
}

function callerWants(control: Int32Array, completed: number): boolean {
  return (
    Atomics.load(control, words.asked) === 1 &&
    reached(completed, Atomics.load(control, words.wanted)) &&
    Atomics.compareExchange(control, words.asked, 1, 0) === 1
  );
}

/** Asks for a message when `sequence` commands are completed. Look at `completed` after asking. */
export function ask(control: Int32Array, sequence: number): void {
  Atomics.store(control, words.asked, 0);
  Atomics.store(control, words.wanted, sequence);
  Atomics.store(control, words.asked, 1);
}

/**
 * Waits on the caller's thread until `sequence` commands are completed, or for this many milliseconds.
 * Returns whether they are completed. May forget an earlier request for a message.
 */
export function waitFor(control: Int32Array, sequence: number, milliseconds: number): boolean {
  const start = performance.now();
  do {
    for (let i = 0; i < spinRounds; i++)
      if (reached(Atomics.load(control, words.completed), sequence)) return true;
  } while (performance.now() - start < spinMillisecondsOfCaller);
  for (let isInTime = true; ; ) {
    // Ask again each time: a worker about to send the message requested before may have taken this one for it.
    ask(control, sequence);
    // A worker that completes it after this look sees the request, changes the word and wakes the caller.
    const isReached = reached(Atomics.load(control, words.completed), sequence);
    if (isReached || !isInTime) {
      Atomics.store(control, words.asked, 0);
      return isReached;
    }
    isInTime = Atomics.wait(control, words.asked, 1, milliseconds) !== "timed-out";
  }
}

/** Keeps the first fault that the caller has not seen; it is complete before the command is. */
function reportFault(control: Int32Array, kernel: number, error: unknown): void {
  if (Atomics.compareExchange(control, words.fault, faultFree, faultWriting) !== faultFree) return;
  const text = new TextEncoder().encode(String(error)).subarray(0, faultTextBytes);
  control[words.faultKernel] = kernel;
  control[words.faultLength] = text.length;
  new Uint8Array(control.buffer, control.byteOffset + 4 * words.faultText, text.length).set(text);
  Atomics.store(control, words.fault, faultReady);
}

export interface Fault {
  /** Index of the kernel. */
  readonly kernel: number;
  readonly message: string;
}

/** Returns the fault that the workers have reported since the last call, if any. */
export function takeFault(control: Int32Array): Fault | undefined {
  if (Atomics.load(control, words.fault) !== faultReady) return undefined;
  const start = control.byteOffset + 4 * words.faultText;
  // Decoders refuse shared memory: copy first.
  const text = new Uint8Array(control.buffer, start, control[words.faultLength]!).slice();
  const fault = { kernel: control[words.faultKernel]!, message: new TextDecoder().decode(text) };
  Atomics.store(control, words.fault, faultFree);
  return fault;
}
