import type { ComputeBackend } from "../../backend.js";
import { type DType, dtypeBytes, elementTypes } from "../../dtype.js";
import { mapOperands } from "../../entries.js";
import { BackendError, toBackendError } from "../../errors.js";
import type { DeviceHandle, Operand } from "../../handles.js";
import { checkNames } from "../../names.js";
import { Checks } from "../../ops/checks.js";
import { operations } from "../../ops/index.js";
import type { Operation } from "../../ops/operation.js";
import { callOperation } from "../../recording/calls.js";
import type { Recording } from "../../recording/recording.js";
import { badSource, recordsIn, type TraceSource } from "./decoder.js";
import { type Difference, differenceOf, ElementTypes } from "./element-types.js";
import type { Bytes, TracedCall, TracedOperand, TracedPart, TraceRecord } from "./format.js";

export interface ReplayOptions {
  /** Operations that are not core's, which the trace may have. */
  readonly operations?: readonly Operation[];
  /** Whether a trace without an end, of a program that crashed say, is replayed as far as it goes. Default: it is refused, after that. */
  readonly allowCut?: boolean;
  /**
   * How far numbers that are read may be from those recorded, as a share of the largest in the same read; whole numbers and
   * bytes must be equal. No bound is known for what many calls leave, so this is a guess: 2^-10 by default. To
   * hold each call to the bounds of the conformance suite, replay on a `CompareBackend`.
   */
  readonly tolerance?: number;
}

/** A read that found other numbers than it did when the trace was made. */
export interface ReplayDifference extends Difference {
  /** How many reads began before it. */
  readonly read: number;
  /** How many calls were made before it. */
  readonly call: number;
}

/** What a replay has done. */
export interface TraceReport {
  /** Operations, copies, fills and uploads; of recordings those of each run. */
  readonly calls: number;
  readonly allocations: number;
  /** Reads whose bytes were compared. */
  readonly reads: number;
  /** Reads that differ by more than the tolerance. */
  readonly differing: readonly ReplayDifference[];
  /** The largest difference of all reads of fractions, as a share; see `ReplayOptions.tolerance`. */
  readonly largestDifference: number;
  /** What was done when the trace was made, but could not be traced. */
  readonly omitted: readonly { readonly operation: string; readonly reason: string }[];
  /** Whether the trace has no end. */
  readonly isCut: boolean;
}

/**
 * Makes all calls of a trace again on a backend, which is open, and compares what reads find with what they found when
 * the trace was made. Everything that the calls allocate is freed at the end.
 *
 * Rejects with `INVALID_ARGUMENT` if the source is no trace, is damaged, or was cut off (see `allowCut`), with `UNSUPPORTED` if
 * it has an operation that is neither core's nor among the options, and with the error of a call that the backend
 * refuses, under its code; the message says which call.
 */
export async function replayTrace(
  source: TraceSource,
  backend: ComputeBackend,
  options: ReplayOptions = {},
): Promise<TraceReport> {
  checkNames("replayTrace", options, ["operations", "allowCut", "tolerance"]);
  const { tolerance = 2 ** -10, allowCut = false } = options;
  if (!(tolerance >= 0)) new Checks("replayTrace").fail("tolerance", `is ${tolerance}; allowed: 0 or more`);
  const replay = new Replay(backend, options.operations ?? [], tolerance);
  const records = recordsIn(source);
  try {
    let next = await records.next();
    for (; next.done !== true; next = await records.next()) {
      if (replay.isEnded) throw badSource("goes on after its end");
      await replay.make(next.value);
    }
    const isWhole = replay.isEnded && !next.value;
    if (!isWhole && !allowCut)
      throw badSource(
        `was cut off: it has no end; ${replay.callCount} calls were made (allowCut takes them)`,
      );
    await backend.synchronize();
    return replay.report();
  } finally {
    // The source may be an open file. If it cannot be closed, that must not hide how the replay ended.
    await records.return(true).catch(() => {});
    replay.close();
  }
}

interface Allocation {
  readonly bytes: number;
  readonly handle: DeviceHandle;
  readonly types: ElementTypes;
}

/** A read under way. */
interface Read {
  readonly bytes: Bytes;
  /** Resolves with the error, if there is one. */
  readonly ended: Promise<unknown>;
  readonly source: TracedOperand;
  readonly runs: ReturnType<ElementTypes["within"]>;
  readonly call: number;
}

/** A recording, and the calls of its parts. */
interface Replayed {
  readonly recording: Recording<{ version: number }>;
  readonly parts: (readonly TracedCall[])[];
  /** Whether each part varies. */
  readonly varies: readonly boolean[];
  version: number;
}

class Replay {
  readonly #backend: ComputeBackend;
  readonly #operations: ReadonlyMap<string, Operation>;
  readonly #tolerance: number;
  readonly #allocations = new Map<number, Allocation>();
  readonly #contents: Bytes[] = [];
  /** Undefined are those of more bytes than the allocation has. */
  readonly #reads = new Map<number, Read | undefined>();
  readonly #recordings = new Map<number, Replayed>();
  readonly #differing: ReplayDifference[] = [];
  readonly #omitted: { readonly operation: string; readonly reason: string }[] = [];
  #allocationCount = 0;
  #readCount = 0;
  #comparedReads = 0;
  #recordingCount = 0;
  #largest = 0;
  callCount = 0;
  isEnded = false;

  constructor(backend: ComputeBackend, own: readonly Operation[], tolerance: number) {
    this.#backend = backend;
    const all = [...(Object.values(operations) as Operation[]), ...own];
    this.#operations = new Map(all.map((operation) => [operation.name, operation]));
    this.#tolerance = tolerance;
  }

  report(): TraceReport {
    return {
      ...{ calls: this.callCount, allocations: this.#allocationCount, reads: this.#comparedReads },
      ...{ differing: this.#differing, largestDifference: this.#largest },
      ...{ omitted: this.#omitted, isCut: !this.isEnded },
    };
  }

  close(): void {
    for (const { recording } of this.#recordings.values()) recording.dispose();
    if (this.#backend.state === "open")
      for (const { handle } of this.#allocations.values()) this.#backend.free(handle);
  }

  async make(record: TraceRecord): Promise<void> {
    try {
      await this.#make(record);
    } catch (error) {
      const { code, message, operation } = toBackendError(error, "DEVICE_ERROR", record[0]);
      if (operation === "replayTrace") throw error;
      const name = record[0] === "run" ? record[1] : record[0];
      throw new BackendError(code, `replayTrace: after ${this.callCount} calls, in ${name}: ${message}`, {
        ...{ operation: "replayTrace", cause: error },
      });
    }
  }

  #make(record: TraceRecord): void | Promise<void> {
    const backend = this.#backend;
    switch (record[0]) {
      case "copyDtoD":
      case "fill":
      case "run":
        this.callCount++;
        this.#call(record);
        return this.#noteTypes(record);
      case "alloc": {
        const handle = backend.alloc(record[1], { zero: record[2] });
        this.#allocations.set(this.#allocationCount++, {
          ...{ handle, bytes: record[1], types: new ElementTypes() },
        });
        return undefined;
      }
      case "free":
        backend.free(this.#allocation(record[1]).handle);
        this.#allocations.delete(record[1]);
        return undefined;
      case "content":
        this.#contents.push(record[1]);
        return undefined;
      case "copyHtoD": {
        const bytes = this.#content(record[2]);
        this.callCount++;
        backend.copyHtoD(this.#operand(record[1]), bytes);
        return this.#noteRun(record[1], bytes.length, "u8");
      }
      case "copyDtoH":
        return this.#read(record[1], record[2]);
      case "read":
        return this.#compare(record[1], record[2]);
      case "synchronize":
        return backend.synchronize();
      case "flush":
        return backend.flush();
      case "trim":
        return backend.trim();
      case "record":
        return this.#record(record[1]);
      case "play":
        return this.#play(record);
      case "forget":
        this.#recording(record[1]).recording.dispose();
        this.#recordings.delete(record[1]);
        return undefined;
      case "omitted":
        this.#omitted.push({ operation: record[1], reason: record[2] });
        return undefined;
      case "end":
        this.isEnded = true;
        return undefined;
    }
  }

  // Calls

  #call(call: TracedCall): void {
    if (call[0] === "copyDtoD")
      this.#backend.copyDtoD(this.#operand(call[1]), this.#operand(call[2]), call[3]);
    else if (call[0] === "fill")
      this.#backend.fill(this.#operand(call[1]), call[2], call[3], call[4] as DType);
    else {
      const operation = this.#operation(call[1]);
      const args = mapOperands(operation, call[2], (_, operand) => this.#operand(operand as TracedOperand));
      callOperation(this.#backend, operation, args);
    }
  }

  #operation(name: string): Operation {
    const operation = this.#operations.get(name);
    if (operation !== undefined) return operation;
    const message = `replayTrace: the trace has the operation ${name}, which is not core's; give it in options.operations`;
    throw new BackendError("UNSUPPORTED", message, { operation: "replayTrace", argument: "operations" });
  }

  #record(traced: readonly TracedPart[]): void {
    const parts = traced.map(([, calls]) => calls);
    const recording = this.#backend.record<{ version: number }>(
      (vary) => {
        for (const [place, [varies]] of traced.entries()) {
          const make = (): void => {
            for (const call of parts[place]!) this.#call(call);
          };
          if (varies) vary(make);
          else make();
        }
      },
      { version: 0 },
    );
    const varies = traced.map(([part]) => part);
    this.#recordings.set(this.#recordingCount++, { recording, parts, varies, version: 0 });
  }

  #play([, number, operands, changed]: TraceRecord & readonly ["play", ...unknown[]]): void {
    const replayed = this.#recording(number);
    for (const [place, calls] of changed) {
      if (!replayed.varies[place]) missing("part that varies", place);
      replayed.parts[place] = calls;
    }
    // Parts are made again when a value has changed.
    if (changed.length > 0) replayed.version++;
    const pairs = operands.map(([from, to]): [DeviceHandle, Operand] => [
      this.#allocation(from.handle).handle,
      this.#operand(to),
    ]);
    replayed.recording.run({ operands: new Map(pairs), values: { version: replayed.version } });
    const bound = new Map(operands.map(([from, to]) => [from.handle, to]));
    for (const calls of replayed.parts)
      for (const call of calls) {
        this.callCount++;
        this.#noteTypes(call, bound);
      }
  }

  #recording(number: number): Replayed {
    return this.#recordings.get(number) ?? missing("recording", number);
  }

  // Reads

  async #read(source: TracedOperand, length: number): Promise<void> {
    const start = source.byteOffset ?? 0;
    const allocation = this.#allocation(source.handle);
    // The program was refused it, or the trace is damaged: then there may not be as much memory.
    if (start + length > allocation.bytes) {
      this.#reads.set(this.#readCount++, undefined);
      return;
    }
    const bytes = new Uint8Array(length);
    const ended = this.#backend.copyDtoH(bytes, this.#operand(source)).then(
      () => undefined,
      (error: unknown) => error,
    );
    const runs = allocation.types.within(start, start + length);
    const shifted = runs.map((run) => ({ ...run, start: run.start - start, end: run.end - start }));
    this.#reads.set(this.#readCount++, { bytes, ended, source, runs: shifted, call: this.callCount });
  }

  async #compare(number: number, content: number | undefined): Promise<void> {
    if (!this.#reads.has(number)) missing("read", number);
    const read = this.#reads.get(number);
    this.#reads.delete(number);
    const error = await read?.ended;
    // It failed when the trace was made: then nothing is known of it.
    if (content === undefined) return;
    if (read === undefined) throw badSource("is damaged: a read is beyond the end of its allocation");
    if (error !== undefined) throw error;
    const recorded = this.#content(content);
    if (recorded.length !== read.bytes.length)
      throw badSource("is damaged: a read has another length than its bytes");
    this.#comparedReads++;
    const found = differenceOf(recorded, read.bytes, read.runs);
    if (found === undefined) return;
    const isFraction = elementTypes[found.dtype].range === undefined;
    if (isFraction) this.#largest = Math.max(this.#largest, found.difference);
    if (!isFraction || !(found.difference <= this.#tolerance))
      this.#differing.push({ ...found, read: number, call: read.call });
  }

  #content(number: number): Bytes {
    return this.#contents[number] ?? missing("content", number);
  }

  // Operands and the types of their elements

  #allocation(number: number): Allocation {
    return this.#allocations.get(number) ?? missing("allocation", number);
  }

  #operand({ handle, byteOffset }: TracedOperand): Operand {
    const found = this.#allocation(handle).handle;
    return byteOffset === undefined ? found : { handle: found, byteOffset };
  }

  #noteRun({ handle, byteOffset = 0 }: TracedOperand, length: number, dtype: DType): void {
    this.#allocation(handle).types.note({ start: byteOffset, end: byteOffset + length, dtype });
  }

  /** Notes what a call writes. `bound`: the operands that take the place of others. */
  #noteTypes(call: TracedCall, bound: ReadonlyMap<DeviceHandle, TracedOperand> = new Map()): void {
    const at = ({ handle, byteOffset = 0 }: TracedOperand): readonly [ElementTypes, number] => {
      const other = bound.get(handle);
      const start = byteOffset + (other?.byteOffset ?? 0);
      return [this.#allocation(other?.handle ?? handle).types, start];
    };
    const note = ([types, start]: readonly [ElementTypes, number], length: number, dtype: DType): void =>
      types.note({ start, end: start + length, dtype });
    if (call[0] === "copyDtoD") {
      const [[to, target], [from, source]] = [at(call[1]), at(call[2])];
      for (const { start, end, dtype } of from.within(source, source + call[3]))
        to.note({ start: start + target - source, end: end + target - source, dtype });
    } else if (call[0] === "fill")
      note(at(call[1]), call[3] * dtypeBytes[call[4] as DType], call[4] as DType);
    else {
      const operation = this.#operation(call[1]);
      operation.resolve(call[2], {
        region: (argument, operand, elements, dtype, before = 0) => {
          const size = dtypeBytes[dtype];
          const [types, start] = at(operand as TracedOperand);
          const isWritten = operation.arguments[argument.replace(/\[.*/, "")]!.role !== "reads";
          if (isWritten) note([types, start - before * size], elements * size, dtype);
          return { memory: {}, byteOffset: start, byteLength: elements * size };
        },
      });
    }
  }
}

function missing(what: string, number: number): never {
  throw badSource(`is damaged: there is no ${what} ${number}`);
}
