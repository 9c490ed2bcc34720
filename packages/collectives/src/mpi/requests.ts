import { performance } from "node:perf_hooks";
import { CommunicationError } from "../errors.js";
import type { Wait } from "../link.js";
import type { Mpi } from "./library.js";
import { isAlive, type Process } from "./neighbours.js";

interface Pending {
  /** The request, as MPI keeps it. */
  readonly request: BigInt64Array;
  /** What MPI reads and writes meanwhile. */
  readonly arrays: readonly ArrayBufferView[];
  readonly wait: Wait;
  readonly since: number;
  resolve(): void;
  reject(error: Error): void;
}

/** A rank of this machine, whose process can be seen. */
export interface Neighbour extends Process {
  readonly rank: number;
}

/** As long as ranks may come late, a request that is younger than this is still polled all the time. */
const eagerMilliseconds = 5;
/** How often it is looked whether neighbours still run. */
const lookMilliseconds = 250;

/** Requests that were given up. MPI, its threads and other processes may still write to their arrays. */
const abandoned: Pending[] = [];

/**
 * The requests under way in this process. MPI makes progress only while it is called, so they are polled from the event
 * loop, between its other work. The first failure ends them all: what the others would still send cannot be told.
 */
export class Requests {
  readonly #mpi: Mpi;
  readonly #timeout: number;
  readonly #pending = new Set<Pending>();
  readonly #flag = new Int32Array(new ArrayBuffer(4));
  /** Longer than the status of any library. */
  readonly #status = new Uint8Array(256);
  #neighbours: readonly Neighbour[] = [];
  #lookedAt = 0;
  #failure: ((operation: string) => CommunicationError) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isTurning = false;

  constructor(mpi: Mpi, timeoutSeconds: number) {
    this.#mpi = mpi;
    this.#timeout = 1000 * timeoutSeconds;
  }

  /** Whether something has failed, or MPI has ended, after which it must not be called any more. */
  get isBroken(): boolean {
    return this.#failure !== undefined;
  }

  /** Watches these ranks from now on, while something is waited for. */
  watch(neighbours: readonly Neighbour[]): void {
    this.#neighbours = neighbours;
  }

  /** Starts a request by a function that gets its place, and resolves when it is complete. */
  start(
    begin: (request: BigInt64Array) => number,
    arrays: readonly ArrayBufferView[],
    wait: Wait,
  ): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure(wait.operation));
    const request = new BigInt64Array(new ArrayBuffer(8));
    for (const array of arrays) keepInPlace(array);
    const code = begin(request);
    return new Promise((resolve, reject) => {
      this.#pending.add({ request, arrays, wait, since: performance.now(), resolve, reject });
      if (code !== 0) {
        this.#fail(this.#errorOf(code));
        return;
      }
      if (this.#timer !== undefined) clearTimeout(this.#timer);
      else if (this.#isTurning) return;
      this.#timer = undefined;
      this.#isTurning = true;
      this.#turn();
    });
  }

  /** Throws if a call that does not wait has returned an error. */
  check(code: number, operation: string): void {
    if (code !== 0) throw this.#fail(this.#errorOf(code))(operation);
  }

  /** Ends all requests, and refuses others from now on. To be called before MPI ends. */
  end(): void {
    const complaint = "comes after dispose() of the communicator of the whole program";
    this.#fail((operation) => new CommunicationError("DISPOSED", operation, complaint));
  }

  readonly #turn = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (const pending of this.#pending) this.#test(pending, now);
    if (now - this.#lookedAt > lookMilliseconds) this.#look(now);
    let isEager = false;
    for (const { wait, since } of this.#pending)
      isEager ||= !wait.isPatient || now - since < eagerMilliseconds;
    this.#isTurning = this.#pending.size > 0;
    if (isEager) setImmediate(this.#turn);
    else if (this.#isTurning) this.#timer = setTimeout(this.#turn, 1);
  };

  #test(pending: Pending, now: number): void {
    const code = this.#mpi.call.MPI_Test(pending.request, this.#flag, this.#status);
    if (code !== 0) this.#fail(this.#errorOf(code));
    else if (this.#flag[0] !== 0) {
      this.#pending.delete(pending);
      pending.resolve();
    } else if (now - pending.since > this.#timeout) {
      const seconds = this.#timeout / 1000;
      const complaint = `waited ${seconds} s for other ranks; allowed: timeoutSeconds, which is ${seconds}`;
      this.#fail((operation) => new CommunicationError("TIMED_OUT", operation, complaint));
    }
  }

  #look(now: number): void {
    this.#lookedAt = now;
    const lost = this.#neighbours.filter((neighbour) => !isAlive(neighbour));
    if (lost.length === 0) return;
    const ranks = lost.map(({ rank }) => rank);
    const processes = lost.map(({ rank, pid }) => `rank ${rank} (process ${pid})`).join(", ");
    const complaint = `${processes} ended without dispose(), so that others wait in vain`;
    this.#fail((operation) => new CommunicationError("RANK_LOST", operation, complaint, ranks));
  }

  #fail(failure: (operation: string) => CommunicationError): (operation: string) => CommunicationError {
    this.#failure ??= failure;
    for (const pending of this.#pending) {
      abandoned.push(pending);
      pending.reject(this.#failure(pending.wait.operation));
    }
    this.#pending.clear();
    return this.#failure;
  }

  #errorOf(code: number): (operation: string) => CommunicationError {
    const [text, length] = [Buffer.alloc(1024), new Int32Array(1)];
    this.#mpi.call.MPI_Error_string(code, text, length);
    const reason = text.toString("latin1", 0, length[0]);
    return (operation) => new CommunicationError("MPI_ERROR", operation, `MPI reports an error: ${reason}`);
  }
}

/**
 * Ends that the bytes of a small array move: V8 keeps them among its objects, which garbage collection moves, until
 * somebody asks for the buffer.
 */
function keepInPlace({ buffer }: ArrayBufferView): ArrayBufferLike {
  return buffer;
}
