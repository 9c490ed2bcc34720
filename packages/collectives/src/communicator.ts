import { Checks, type ComputeBackend, checkNames, checkPlace, dtypes, type Operand } from "@backplane/core";
import { agree, type Terms } from "./agreement.js";
import {
  type AllGatherArguments,
  type AllReduceArguments,
  type AllReduceKind,
  type BroadcastArguments,
  elementsOf,
  kinds,
  ownOperand,
  type Place,
  placeOf,
  type ReceiveArguments,
  type ReduceScatterArguments,
  type SendArguments,
  type SplitArguments,
  tagOf,
} from "./arguments.js";
import { type ReducedType, reducedTypes, reductions } from "./elements.js";
import { CommunicationError } from "./errors.js";
import type { Link, Reducible, ReductionKind } from "./link.js";
import { Mail } from "./mail.js";

/** What belongs to the whole program rather than to one group of it. */
export interface Home {
  /** The place of this rank among those of its machine, from 0. */
  readonly localRank: number;
  /** A description of the engine, for people. */
  readonly engine: string;
  /** Ends the engine. */
  close(): void;
  /** Whether a failure has ended all communication, so that there is nobody to agree with. */
  isBroken(): boolean;
}

/**
 * A group of processes, the ranks, that run the same program side by side. Each has memory and backends of its own, and
 * they exchange the contents of allocations:
 *
 *   await communicator.allReduce(backend, { input: gradient, count });
 *
 * - Calls of all ranks of a communicator but `send` and `receive` must be made by every rank, in the same order. Their
 *   terms (operation, count, element type, kind, root) are compared before anything is moved. If they differ, or a rank
 *   refuses its arguments or cannot read its operand, the promises of all ranks reject, and the ranks may go on.
 * - Inputs are read as the calls made before left them, like `copyDtoH`. Outputs are written, like `copyHtoD`, right before
 *   the promise resolves, and only then: no failure leaves a part of a result. Do not use an output before that.
 * - The calls of one communicator are carried out one after the other, in the order in which they were made. Several
 *   may be under way, and reads of the backend overlap with messages of earlier calls.
 * - The event loop goes on.
 * - A rank whose process ends rejects what others wait for with `RANK_LOST`, within a second if it is of the same machine.
 *   Across machines the launcher ends the program, or `timeoutSeconds` does.
 */
export class Communicator implements AsyncDisposable {
  readonly #link: Link;
  readonly #home: Home;
  readonly #isSplit: boolean;
  readonly #mail: Mail;
  #last: Promise<unknown> = Promise.resolve();
  #disposal: Promise<void> | undefined;

  constructor(link: Link, home: Home, isSplit = false) {
    this.#link = link;
    this.#home = home;
    this.#isSplit = isSplit;
    this.#mail = new Mail(link);
  }

  /** The number of this process, from 0. */
  get rank(): number {
    return this.#link.rank;
  }

  /** How many ranks there are. */
  get size(): number {
    return this.#link.size;
  }

  /** The place of this process among those of the same machine, from 0, in the whole program. */
  get localRank(): number {
    return this.#home.localRank;
  }

  /** What moves the bytes, for people: a version of MPI, or "none". */
  get engine(): string {
    return this.#home.engine;
  }

  /**
   * output[i] = kind over all ranks of input[i], with the same bits on every rank. The order of summing is that of MPI,
   * and may depend on the number of ranks and elements. f16 is reduced in f32 and rounded once. i32 wraps around, and
   * its mean is rounded towards zero. Whether max and min pass NaN on is left to MPI.
   */
  allReduce(backend: ComputeBackend, args: AllReduceArguments): Promise<void> {
    return this.#collective(backend, "allReduce", (checks) => {
      checkNames("allReduce", args, ["input", "output", "count", "dtype", "kind"]);
      const { input, output = input } = args;
      const elements = elementsOf(checks, args, reducedTypes);
      const kind = checks.oneOf("kind", args.kind ?? "sum", kinds);
      return {
        terms: { operation: "allReduce", ...elements, kind },
        input: { argument: "input", operand: input, bytes: elements.bytes },
        output: {
          argument: args.output === undefined ? "input" : "output",
          operand: output,
          bytes: elements.bytes,
        },
        prepare: (bytes) => {
          const { widen, narrow } = reductions[elements.dtype];
          const values = widen(bytes);
          return async () => {
            await this.#link.allReduce(values, summed(kind), moving("allReduce"));
            return narrow(this.#meanIf(kind, elements.dtype, values));
          };
        },
      };
    });
  }

  /** data on every rank = data on the root. */
  broadcast(backend: ComputeBackend, args: BroadcastArguments): Promise<void> {
    return this.#collective(backend, "broadcast", (checks) => {
      checkNames("broadcast", args, ["data", "count", "dtype", "root"]);
      const elements = elementsOf(checks, args, dtypes);
      const root = this.#rankOf(checks, "root", args.root ?? 0);
      const place = { argument: "data", operand: args.data, bytes: elements.bytes };
      const isRoot = root === this.rank;
      return {
        terms: { operation: "broadcast", ...elements, root },
        input: isRoot ? place : undefined,
        output: isRoot ? undefined : place,
        prepare: (read) => {
          const bytes = isRoot ? read : new Uint8Array(elements.bytes);
          return async () => {
            await this.#link.broadcast(bytes, root, moving("broadcast"));
            return bytes;
          };
        },
      };
    });
  }

  /** output[r count + i] = input[i] of rank r. */
  allGather(backend: ComputeBackend, args: AllGatherArguments): Promise<void> {
    return this.#collective(backend, "allGather", (checks) => {
      checkNames("allGather", args, ["input", "output", "count", "dtype"]);
      const elements = elementsOf(checks, args, dtypes, this.size);
      const bytes = elements.bytes * this.size;
      return {
        terms: { operation: "allGather", ...elements },
        input: { argument: "input", operand: args.input, bytes: elements.bytes },
        output: { argument: "output", operand: args.output, bytes },
        prepare: (read) => {
          const all = new Uint8Array(bytes);
          return async () => {
            await this.#link.allGather(read, all, moving("allGather"));
            return all;
          };
        },
      };
    });
  }

  /** output[i] on rank r = kind over all ranks of input[r count + i]. Types and kinds are as in `allReduce`. */
  reduceScatter(backend: ComputeBackend, args: ReduceScatterArguments): Promise<void> {
    return this.#collective(backend, "reduceScatter", (checks) => {
      checkNames("reduceScatter", args, ["input", "output", "count", "dtype", "kind"]);
      const elements = elementsOf(checks, args, reducedTypes, this.size);
      const kind = checks.oneOf("kind", args.kind ?? "sum", kinds);
      return {
        terms: { operation: "reduceScatter", ...elements, kind },
        input: { argument: "input", operand: args.input, bytes: elements.bytes * this.size },
        output: { argument: "output", operand: args.output, bytes: elements.bytes },
        prepare: (read) => {
          const { widen, narrow } = reductions[elements.dtype];
          const values = widen(read);
          const part = values.slice(0, elements.count);
          return async () => {
            await this.#link.reduceScatter(values, part, summed(kind), moving("reduceScatter"));
            return narrow(this.#meanIf(kind, elements.dtype, part));
          };
        },
      };
    });
  }

  /** Resolves when all ranks have called it. It does not wait for the work of backends. */
  async barrier(): Promise<void> {
    this.#assertOpen("barrier");
    await this.#inTurn(() => agree(this.#link, { operation: "barrier" }, undefined));
  }

  /**
   * Sends elements to another rank, which must `receive` as many of the same type. Resolves when they are there, so two
   * ranks that exchange elements must not both await their `send` first. Messages with one receiver and tag keep their
   * order. If count or type differ, both promises reject, and nothing is moved.
   */
  async send(backend: ComputeBackend, args: SendArguments): Promise<void> {
    this.#assertOpen("send");
    const checks = new Checks("send");
    checkNames("send", args, ["input", "count", "dtype", "to", "tag"]);
    const { bytes, count, dtype } = elementsOf(checks, args, dtypes);
    const to = this.#peerOf(checks, "to", args.to);
    const tag = tagOf(checks, args.tag);
    const reading = read("send", backend, { argument: "input", operand: args.input, bytes });
    await this.#mail.send(reading, { count, dtype }, to, tag);
  }

  /** Receives elements that another rank sends. The output is written right before the promise resolves. */
  async receive(backend: ComputeBackend, args: ReceiveArguments): Promise<void> {
    this.#assertOpen("receive");
    const checks = new Checks("receive");
    checkNames("receive", args, ["output", "count", "dtype", "from", "tag"]);
    const { bytes, count, dtype } = elementsOf(checks, args, dtypes);
    const from = this.#peerOf(checks, "from", args.from);
    const tag = tagOf(checks, args.tag);
    checkPlace("receive", "output", backend, args.output, bytes);
    const output = ownOperand(args.output);
    const data = new Uint8Array(bytes);
    await this.#mail.receive(data, { count, dtype }, from, tag);
    backend.copyHtoD(output, data);
  }

  /**
   * Divides the ranks into groups, and resolves with the communicator of the group of this rank; undefined if it has none.
   * The groups work independently of each other and of this communicator, which remains.
   */
  async split(args: SplitArguments): Promise<Communicator | undefined> {
    this.#assertOpen("split");
    let place: Place | undefined;
    let failure: unknown;
    try {
      place = placeOf(args);
    } catch (error) {
      failure = error;
    }
    return await this.#inTurn(async () => {
      await agree(this.#link, { operation: "split" }, failure);
      const link = this.#link.split(place!.color, place!.key);
      return link === undefined ? undefined : new Communicator(link, this.#home, true);
    });
  }

  /**
   * Ends the communicator, once all ranks have called this and earlier calls have ended. For the one that
   * `openCommunicator` gave, ends MPI in this process: a program that leaves it out is taken for one that has failed.
   * After a failure that has ended all communication, it returns at once. Idempotent.
   */
  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  async #dispose(): Promise<void> {
    await this.#mail.idle();
    await this.#inTurn(async () => {
      if (!this.#home.isBroken()) await agree(this.#link, { operation: "dispose" }, undefined);
    });
    if (!this.#isSplit) this.#home.close();
    else if (!this.#home.isBroken()) this.#link.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }

  /** Carries out a call that all ranks make: reads, agrees, moves, writes. Arguments at fault are told to the others too. */
  async #collective(
    backend: ComputeBackend,
    operation: string,
    check: (checks: Checks) => Collective,
  ): Promise<void> {
    this.#assertOpen(operation);
    let call: Collective | undefined;
    let destination: Operand | undefined;
    let reading: Promise<Uint8Array<ArrayBuffer>>;
    try {
      call = check(new Checks(operation));
      const { input, output } = call;
      if (output !== undefined) {
        checkPlace(operation, output.argument, backend, output.operand, output.bytes);
        destination = ownOperand(output.operand);
      }
      reading = input === undefined ? Promise.resolve(new Uint8Array()) : read(operation, backend, input);
    } catch (error) {
      reading = Promise.reject(error);
    }
    const ready = reading.then(
      (bytes) => ({ bytes }),
      (error: unknown) => ({ error: error ?? new Error("unknown") }),
    );
    await this.#inTurn(async () => {
      const input = await ready;
      let move: Move | undefined;
      let failure: unknown;
      try {
        if ("error" in input) throw input.error;
        move = call!.prepare(input.bytes);
      } catch (error) {
        failure = error;
      }
      await agree(this.#link, call?.terms ?? { operation }, failure);
      const result = await move!();
      if (destination !== undefined) backend.copyHtoD(destination, result);
    });
  }

  #inTurn<Result>(body: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(body);
    this.#last = result.catch(() => {});
    return result;
  }

  #meanIf(kind: AllReduceKind, dtype: ReducedType, values: Reducible): Reducible {
    const { divide } = reductions[dtype];
    if (kind === "mean") for (let i = 0; i < values.length; i++) values[i] = divide(values[i]!, this.size);
    return values;
  }

  #rankOf(checks: Checks, argument: string, value: unknown): number {
    const rank = checks.count(argument, value);
    if (rank >= this.size) checks.fail(argument, `is ${rank}; allowed: a rank, from 0 to ${this.size - 1}`);
    return rank;
  }

  #peerOf(checks: Checks, argument: string, value: unknown): number {
    const rank = this.#rankOf(checks, argument, value);
    if (rank === this.rank) checks.fail(argument, `is ${rank}, this rank itself; allowed: other ranks`);
    return rank;
  }

  #assertOpen(operation: string): void {
    if (this.#disposal !== undefined)
      throw new CommunicationError("DISPOSED", operation, "comes after dispose()");
  }
}

/** A place in an allocation, and how much of it is meant. */
interface Stretch {
  /** Its name in messages. */
  readonly argument: string;
  readonly operand: Operand;
  readonly bytes: number;
}

interface Collective {
  readonly terms: Terms;
  readonly input: Stretch | undefined;
  readonly output: Stretch | undefined;
  /** Gets the bytes of the input. Makes all arrays that are needed: nothing may fail here once the ranks have agreed. */
  prepare(bytes: Uint8Array<ArrayBuffer>): Move;
}

/** Returns the bytes of the output. */
type Move = () => Promise<ArrayBufferView<ArrayBufferLike>>;

const moving = (operation: string) => ({ operation, isPatient: false });

function summed(kind: AllReduceKind): ReductionKind {
  return kind === "mean" ? "sum" : kind;
}

async function read(
  operation: string,
  backend: ComputeBackend,
  { argument, operand, bytes }: Stretch,
): Promise<Uint8Array<ArrayBuffer>> {
  checkPlace(operation, argument, backend, operand, bytes);
  const data = new Uint8Array(bytes);
  await backend.copyDtoH(data, operand);
  return data;
}
