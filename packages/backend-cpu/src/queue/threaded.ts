import { BackendError } from "@backplane/core";
import { availableThreads, mayBlock } from "../features.js";
import type { Allocation, Heap } from "../heap.js";
import { KernelInstances } from "../kernels/instance.js";
import type { Launch } from "../kernels/kernel.js";
import type { KernelLibrary } from "../kernels/library.js";
import { planCopy, planNothing } from "../kernels/memory/index.js";
import type { KernelFunction } from "../native/functions.js";
import { Fifo } from "./fifo.js";
import { SharedList } from "./list.js";
import {
  ask,
  close,
  controlBytes,
  firstSequence,
  idleBlock,
  initialise,
  type List,
  publish,
  publishList,
  type Reach,
  reached,
  reachInto,
  ringSlots,
  takeFault,
  waitFor,
  words,
} from "./protocol.js";
import type { CommandList, Queue, QueueEvents } from "./queue.js";
import { StagingRing } from "./staging.js";
import { type SpawnWorker, spawnWorker, type WorkerHandle } from "./workers.js";

/**
 * Workers beyond the first are started only if work that can be shared takes longer than this: a program that
 * now and then multiplies two matrices would pay for their start and gain nothing.
 */
const patienceMilliseconds = 5;
const defaultPatience = (): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, patienceMilliseconds));

export interface ThreadedQueueOptions {
  readonly kernels: KernelLibrary;
  /** Called while the first worker starts, so that both happen at once. */
  meanwhile?(): Promise<void>;
  /** Shared. */
  readonly memory: WebAssembly.Memory;
  readonly heap: Heap;
  /** Addresses of the scratch of each worker, one for each worker to be started. */
  readonly scratch: readonly number[];
  readonly events: QueueEvents;
  readonly stagingBytes: number;
  /** Default: real workers. */
  readonly spawn?: SpawnWorker;
  /** Resolves when shared work has lasted long enough to start the other workers. Default: by time. */
  readonly patience?: () => Promise<void>;
}

/**
 * The longest commands that the caller runs itself, if nothing is under way, in nanoseconds. To wake a worker for one takes the
 * caller 4 to 13 us.
 */
const ownNanoseconds = 2000;

/** A command that is not in the ring yet. */
interface Waiting {
  readonly launch: Launch | List;
  /** An action of the caller, after all earlier commands have finished and before this one is published. */
  readonly before: (() => void) | undefined;
}

/** A promise to settle when `sequence` commands have finished. */
interface Waiter {
  sequence: number;
  done(): void;
  fail(error: BackendError): void;
}

interface PendingRead extends Waiter {
  /** The address to copy from. */
  address: number;
  readonly bytes: number;
  /** The block of the heap that belongs to this read alone, if it has one. */
  staged: Allocation | undefined;
}

/**
 * A queue that workers drain over shared memory. The caller never blocks, and runs only commands that take less time than
 * to hand them over, while nothing is under way.
 *
 * The protocol orders the effects of commands on memory. The caller itself touches memory of the heap only if
 * no command under way can use it:
 * - It runs a small command, or writes to the place itself, if nothing is under way, or writes while the queue stands still for it
 *   (`Waiting.before`); and it writes to the staging ring, which it owns.
 * - It reads the place of a last read as long as no command has followed and the place is not free (free
 *   memory of the heap may be written by the next command, or by a copy for another read), and blocks that
 *   belong to reads alone.
 */
export class ThreadedQueue implements Queue {
  /** Bytes at the bottom of the memory that the queue needs. */
  static readonly controlBytes: number = controlBytes;
  readonly workers: number;
  readonly mayReadSync: boolean = mayBlock();
  readonly #memory: WebAssembly.Memory;
  readonly #control: Int32Array;
  readonly #reach: Reach;
  readonly #spawn: SpawnWorker;
  readonly #patience: () => Promise<void>;
  /** Of each worker. */
  readonly #scratch: readonly number[];
  readonly #kernels: KernelLibrary;
  /** For small commands. */
  readonly #instances: KernelInstances;
  #mayRunHere = true;
  readonly #heap: Heap;
  readonly #staging: StagingRing;
  readonly #events: QueueEvents;
  readonly #handles: WorkerHandle[] = [];
  /** Commands accepted so far, whether they are in the ring or not. */
  #accepted = firstSequence;
  /** Commands that found the ring full, or that wait for an action of the caller. */
  readonly #backlog = new Fifo<Waiting>();
  readonly #waiters = new Fifo<Waiter>();
  /**
   * Reads with no command after them, which can copy from the place itself when their time comes. Their
   * places are never free: `release` and `enqueue` stage them first.
   */
  readonly #lastReads = new Fifo<PendingRead>();
  #holding = true;
  /** When this many commands are completed, so are all those that workers can share. */
  #shared = firstSequence;
  #considering = false;
  /** `open` has finished: a worker that ends from now on is a loss. */
  #started = false;
  #end: BackendError | undefined;

  private constructor(options: ThreadedQueueOptions) {
    this.workers = options.scratch.length;
    this.#scratch = options.scratch;
    this.#spawn = options.spawn ?? spawnWorker;
    this.#patience = options.patience ?? defaultPatience;
    this.#kernels = options.kernels;
    this.#memory = options.memory;
    // No kernel of a native library is a small command.
    this.#instances = new KernelInstances(options.kernels.code, options.memory, {});
    this.#control = new Int32Array(options.memory.buffer);
    this.#reach = reachInto(options.memory);
    this.#heap = options.heap;
    this.#staging = new StagingRing(options.heap, options.stagingBytes);
    this.#events = options.events;
    initialise(this.#control, availableThreads());
  }

  /**
   * Starts one worker. Rejects if it does not start. The others are started when there has been work to share
   * for some time, and join in when they are up.
   */
  static async open(options: ThreadedQueueOptions): Promise<ThreadedQueue> {
    const queue = new ThreadedQueue(options);
    try {
      const firstIsUp = queue.#addWorker();
      await Promise.all([firstIsUp, options.meanwhile?.()]);
      queue.#started = true;
      queue.#hold(false);
    } catch (error) {
      await queue.close();
      throw error;
    }
    return queue;
  }

  /** Resolves when the worker is up. */
  #addWorker(): Promise<void> {
    const worker = this.#handles.length;
    return new Promise((resolve, reject) => {
      const handle = this.#spawn(worker, {
        message: (text) => (text === "ready" ? resolve() : this.#progress()),
        ended: (reason) => {
          reject(new BackendError("UNSUPPORTED", `worker ${worker} did not start: ${reason}`));
          if (this.#started) this.#lose(`worker ${worker} ended: ${reason}`);
        },
      });
      handle.hold(this.#holding);
      this.#handles.push(handle);
      const scratch = this.#scratch[worker]!;
      handle.start({ kernels: this.#kernels.code, memory: this.#memory, scratch, worker });
    });
  }

  /** Starts the missing workers unless the first one finishes the work soon. */
  #considerOthers(): void {
    this.#shared = this.#accepted;
    if (this.#considering) return;
    this.#considering = true;
    void this.#patience().then(() => {
      this.#considering = false;
      if (this.#end === undefined && !reached(this.#completed(), this.#shared)) this.#addOthers();
    });
  }

  #addOthers(): void {
    while (this.#handles.length < this.workers) {
      // A worker that fails takes the device with it, as at any later time.
      this.#addWorker().catch(() => {});
    }
  }

  enqueue(launch: Launch): void {
    if (this.#end !== undefined) return;
    // Tell the caller at once if something is wrong with the kernel.
    const kernel = this.#kernels.index(launch.kernel);
    const { nanoseconds = Number.POSITIVE_INFINITY } = launch;
    if (nanoseconds <= ownNanoseconds && this.#isIdle() && this.#ranHere(kernel, launch)) return;
    if (this.#lastReads.length > 0) this.#stageReads();
    this.#append(launch);
  }

  /**
   * Whether nothing is under way, so that this thread may run a kernel. Settles reads that are due: they may still have to copy
   * what is about to be overwritten.
   */
  #isIdle(): boolean {
    if (!this.#mayRunHere) return false;
    if (this.#completed() !== this.#accepted) return false;
    if (this.#waiters.length === 0) return true;
    return this.#settle() === this.#accepted;
  }

  /**
   * Runs a command while nothing is under way, as the first worker would: with its scratch and its number. Returns false if it
   * must be handed over.
   */
  #ranHere(kernel: number, { kernel: name, words: block, chunks }: Launch): boolean {
    let run: KernelFunction;
    try {
      run = this.#instances.get(kernel);
    } catch (error) {
      // Old pages compile only small modules here, but any in workers.
      if (error instanceof RangeError) this.#mayRunHere = false;
      return false;
    }
    const address = idleBlock(this.#control);
    for (let i = 0; i < block.length; i++) this.#control[address / 4 + i] = block[i]!;
    try {
      for (let chunk = 0; chunk < chunks; chunk++) run(address, chunk, this.#scratch[0]!, 0);
    } catch (error) {
      const message = `kernel ${name} failed: ${String(error)}`;
      this.#events.error(new BackendError("DEVICE_ERROR", message, { cause: error }));
    }
    return true;
  }

  newList(): CommandList {
    return new SharedList(this, this.#heap, this.#kernels);
  }

  /** Appends commands that lie in the memory. */
  enqueueList(list: List): void {
    if (this.#end !== undefined) return;
    if (this.#lastReads.length > 0) this.#stageReads();
    this.#append(list);
  }

  #append(launch: Launch | List, before?: () => void): void {
    this.#accepted = (this.#accepted + 1) | 0;
    this.#backlog.push({ launch, before });
    this.#refill();
    if (this.#backlog.length > 0) this.#ask();
    if (launch.helpers > 1 && this.#handles.length < this.workers) this.#considerOthers();
  }

  write(address: number, source: Uint8Array<ArrayBufferLike>): void {
    if (this.#end !== undefined) return;
    // Reads that are due come first: they may still have to copy what is about to be overwritten. A
    // command that finishes after this look counts as unfinished, and so do the reads that wait for it.
    const completed = this.#settle();
    if (completed === this.#accepted) {
      this.#view(address, source.byteLength).set(source);
      return;
    }
    if (this.#lastReads.length > 0) this.#stageReads();
    const bytes = source.byteLength;
    const staged = this.#staging.take(bytes, completed, this.#accepted);
    if (staged !== undefined) {
      this.#view(staged, bytes).set(source);
      this.#append(planCopy(address, staged, bytes));
      this.#staging.commit(this.#accepted);
    } else {
      const copy = source.slice();
      this.#append(planNothing(), () => this.#view(address, bytes).set(copy));
    }
  }

  read(destination: Uint8Array<ArrayBufferLike>, address: number): Promise<void> {
    const bytes = destination.byteLength;
    return new Promise((resolve, reject) => {
      const read: PendingRead = {
        sequence: this.#accepted,
        address,
        bytes,
        staged: undefined,
        done: () => {
          // Promises settle in order, so a read that nothing follows is the first of those.
          if (this.#lastReads.first === read) this.#lastReads.shift();
          try {
            destination.set(this.#view(read.address, bytes));
            resolve();
          } catch (error) {
            // The destination may have been detached meanwhile.
            reject(error);
          }
          if (read.staged !== undefined) this.#heap.release(read.staged);
        },
        fail: reject,
      };
      if (this.#end === undefined) this.#lastReads.push(read);
      this.#wait(read);
    });
  }

  readSync(destination: Uint8Array<ArrayBufferLike>, address: number): void {
    this.#waitForAll();
    destination.set(this.#view(address, destination.byteLength));
  }

  /** Waits on this thread until all commands so far have finished. Meanwhile does the caller's part of the work. */
  #waitForAll(): void {
    for (;;) {
      if (this.#end !== undefined) throw this.#end;
      const completed = this.#settle();
      this.#refill();
      if (completed === this.#accepted) break;
      // The timer that would start the other workers has to wait, too.
      const isAlone = this.#handles.length < this.workers && !reached(completed, this.#shared);
      const patience = isAlone ? patienceMilliseconds : Number.POSITIVE_INFINITY;
      if (!waitFor(this.#control, this.#nextTurn(this.#accepted), patience)) this.#addOthers();
    }
    // Nobody waits for a message any more.
    this.#ask();
  }

  release(block: Allocation): void {
    // This memory will soon hold the bytes of another staged read.
    const end = block.address + block.bytes;
    if (this.#lastReads.some(({ address }) => address >= block.address && address < end)) this.#stageReads();
    this.#heap.release(block);
  }

  synchronize(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wait({ sequence: this.#accepted, done: resolve, fail: reject });
    });
  }

  async close(): Promise<void> {
    this.#finish(new BackendError("DISPOSED", "the queue was closed"));
    close(this.#control);
    await Promise.all(this.#handles.map((handle) => handle.terminate()));
  }

  #completed(): number {
    return Atomics.load(this.#control, words.completed);
  }

  /** Returns the bytes at an address. Makes a new view, since growing the memory replaces the buffer. */
  #view(address: number, bytes: number): Uint8Array {
    return new Uint8Array(this.#memory.buffer, address, bytes);
  }

  #wait(waiter: Waiter): void {
    if (this.#end !== undefined) {
      waiter.fail(this.#end);
      return;
    }
    this.#waiters.push(waiter);
    this.#progress();
  }

  /** A following command may change the source of the last reads: copies it aside, in order. */
  #stageReads(): void {
    this.#settle();
    for (let read = this.#lastReads.shift(); read !== undefined; read = this.#lastReads.shift()) {
      const source = read.address;
      const staged = this.#tryAllocate(read.bytes);
      if (staged !== undefined) {
        read.address = staged.address;
        read.staged = staged;
        this.#append(planCopy(staged.address, source, read.bytes));
      } else {
        // There is no memory for that: the workers stop at this place while the caller copies.
        const copyOut = read.done;
        read.done = () => {};
        this.#append(planNothing(), copyOut);
      }
      read.sequence = this.#accepted;
    }
  }

  #tryAllocate(bytes: number): Allocation | undefined {
    try {
      return this.#heap.allocate(bytes);
    } catch {
      return undefined;
    }
  }

  /** Does everything that is due, then asks for a message if there will be more. */
  #progress(): void {
    if (this.#end !== undefined) return;
    this.#settle();
    this.#refill();
    this.#settle();
    this.#ask();
  }

  /** Moves commands from the backlog to the ring. */
  #refill(): void {
    for (;;) {
      const next = this.#backlog.first;
      if (next === undefined) return;
      const completed = this.#completed();
      const published = Atomics.load(this.#control, words.published);
      if (((published - completed) | 0) >= ringSlots) return;
      if (next.before !== undefined) {
        if (completed !== published) return;
        next.before();
      }
      this.#backlog.shift();
      const { launch } = next;
      if ("steps" in launch) publishList(this.#control, launch, this.#reach);
      else {
        const { kernel, chunks, helpers, words: block } = launch;
        const command = { kernel: this.#kernels.index(kernel), chunks, helpers, block };
        publish(this.#control, command, this.#reach);
      }
    }
  }

  /** Settles the promises that are due, oldest first. Returns how many commands were completed then. */
  #settle(): number {
    const completed = this.#completed();
    // After that look: a completed command has already reported its fault.
    this.#reportFault();
    for (;;) {
      const waiter = this.#waiters.first;
      if (waiter === undefined || !reached(completed, waiter.sequence)) return completed;
      this.#waiters.shift();
      waiter.done();
    }
  }

  #reportFault(): void {
    const fault = takeFault(this.#control);
    if (fault === undefined) return;
    const name = this.#kernels.code.names[fault.kernel];
    this.#events.error(new BackendError("DEVICE_ERROR", `kernel ${name} failed: ${fault.message}`));
  }

  /** Asks the workers for a message at the next moment when there is something to do here. */
  #ask(): void {
    const waiter = this.#waiters.first;
    this.#hold(waiter !== undefined);
    const wanted = this.#nextTurn(waiter?.sequence);
    if (wanted === undefined) return;
    ask(this.#control, wanted);
    // If it was reached before the workers could see the request, nobody sends a message.
    if (reached(this.#completed(), wanted)) queueMicrotask(() => this.#progress());
  }

  /** Returns the number of completed commands at which there is something to do here: at most `wanted`. */
  #nextTurn<Wanted extends number | undefined>(wanted: Wanted): Wanted | number {
    const next = this.#backlog.first;
    if (next === undefined) return wanted;
    const published = Atomics.load(this.#control, words.published);
    // Wait for half a ring: enough to keep the workers busy while the message travels.
    const room = next.before === undefined ? (published - ringSlots / 2) | 0 : published;
    return wanted === undefined || reached(wanted, room) ? room : wanted;
  }

  /** Workers let the process end, unless a caller waits for a result. */
  #hold(alive: boolean): void {
    if (alive === this.#holding) return;
    this.#holding = alive;
    for (const handle of this.#handles) handle.hold(alive);
  }

  #lose(reason: string): void {
    if (this.#end !== undefined) return;
    this.#finish(new BackendError("DEVICE_LOST", `the device was lost: ${reason}`));
    this.#events.lost(reason);
  }

  #finish(error: BackendError): void {
    if (this.#end !== undefined) return;
    this.#end = error;
    this.#lastReads.clear();
    this.#backlog.clear();
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) waiter.fail(error);
    // No caller waits any more: the remaining workers let the process end.
    this.#hold(false);
  }
}
