import { checkedOffset, checkFill } from "../arguments.js";
import type { ComputeBackend } from "../backend.js";
import { dtypeBytes } from "../dtype.js";
import { BackendError } from "../errors.js";
import type { DeviceHandle, Operand } from "../handles.js";
import { Checks } from "../ops/checks.js";
import { type OperationName, operationNames, operations } from "../ops/index.js";
import { operationOf } from "../ops/lookup.js";
import type { Operation } from "../ops/operation.js";
import type { Region } from "../region.js";
import { assertSupported } from "../support.js";
import { copyCall, fillCall, makeCall, nameOf, operationCall, type RecordedCall } from "./calls.js";
import type { Collected, Part, Player } from "./parts.js";
import { whileRecording } from "./while-recording.js";

const refused = ["alloc", "free", "copyHtoD", "copyDtoHSync", "flush", "trim", "native", "record"] as const;
const rejected = ["copyDtoH", "synchronize"] as const;

/** The backends whose calls are being recorded. */
const recording = new WeakSet<ComputeBackend>();

/** Carries out recordings by making the calls again, one by one, on any backend, by its public methods alone. */
export class RepeatingPlayer implements Player {
  readonly ended: undefined = undefined;
  readonly #backend: ComputeBackend;

  constructor(backend: ComputeBackend) {
    this.#backend = backend;
  }

  assertOpen(operation: string): void {
    if (recording.has(this.#backend)) throw whileRecording(operation);
    const { state } = this.#backend;
    if (state === "open") return;
    // Every call throws the error of that state.
    this.#backend.flush();
    throw new BackendError("NOT_INITIALIZED", `${operation}: the backend is ${state}`, { operation });
  }

  /** Hides the methods of the backend behind others. */
  collect(body: () => void, add: Collected): void {
    const backend = this.#backend;
    const record = (call: RecordedCall): void => {
      restored(() => this.#check(call));
      add(call, undefined);
    };
    const run = (given: OperationName | Operation, args: object): void =>
      record(operationCall(operationOf("run", given), args));
    const replaced = new Map<string, unknown>([
      ["run", run],
      ["copyDtoD", (to: Operand, from: Operand, bytes: number) => record(copyCall(to, from, bytes))],
      ["fill", (...args: Parameters<typeof fillCall>) => record(fillCall(...args))],
    ]);
    for (const name of operationNames)
      replaced.set(name, (args: object) => run(operations[name] as Operation, args));
    for (const name of refused)
      replaced.set(name, () => {
        throw whileRecording(name);
      });
    for (const name of rejected) replaced.set(name, () => Promise.reject(whileRecording(name)));
    const own = new Map(
      Array.from(replaced.keys(), (name) => [name, Object.getOwnPropertyDescriptor(backend, name)]),
    );
    const hide = (): void => {
      for (const [name, value] of replaced)
        Object.defineProperty(backend, name, { value, configurable: true, writable: true });
    };
    const restore = (): void => {
      for (const [name, descriptor] of own)
        if (descriptor === undefined) delete (backend as unknown as Record<string, unknown>)[name];
        else Object.defineProperty(backend, name, descriptor);
    };
    const restored = (check: () => void): void => {
      restore();
      try {
        check();
      } finally {
        hide();
      }
    };
    recording.add(backend);
    hide();
    try {
      body();
    } finally {
      restore();
      recording.delete(backend);
    }
  }

  plan(_place: number, calls: readonly RecordedCall[]): void {
    for (const call of calls) this.#check(call);
  }

  #check(call: RecordedCall): void {
    const { operation } = call;
    const checks = new Checks(nameOf(call));
    if (operation === "copyDtoD") {
      const { destination, source, bytes } = call;
      checks.count("bytes", bytes);
      checks.disjoint(
        { argument: "destination", region: this.#region(checks, "destination", destination, bytes, 1) },
        { argument: "source", region: this.#region(checks, "source", source, bytes, 1) },
      );
    } else if (operation === "fill") {
      const { destination, value, count, dtype } = call;
      checkFill(value, count, dtype);
      const size = dtypeBytes[dtype];
      this.#region(checks, "destination", destination, count * size, size);
    } else {
      assertSupported(this.#backend, operation, call.args);
      operation.resolve(call.args, {
        region: (argument, operand, elements, dtype, before = 0) => {
          const size = dtypeBytes[dtype];
          return this.#region(checks, argument, operand, elements * size, size, before * size);
        },
      });
    }
  }

  #region(
    checks: Checks,
    argument: string,
    operand: Operand,
    byteLength: number,
    alignment: number,
    before = 0,
  ): Region<DeviceHandle> {
    const isSlice = typeof operand === "object" && operand !== null;
    const memory = isSlice ? operand.handle : operand;
    this.assertLive(memory, checks.operation, argument);
    const place = isSlice ? checkedOffset(checks.operation, argument, operand, alignment) : 0;
    const byteOffset = place - before;
    this.#assertReaches(memory, byteOffset, checks.operation, argument);
    this.#assertReaches(memory, byteOffset + byteLength, checks.operation, argument);
    return { memory, byteOffset, byteLength };
  }

  assertLive(handle: DeviceHandle, operation: string, argument: string): void {
    this.#assertReaches(handle, 0, operation, argument);
  }

  /** Only the backend itself knows its allocations. A fill of nothing has it check a place. */
  #assertReaches(handle: DeviceHandle, byteOffset: number, operation: string, argument: string): void {
    const details = { operation, argument };
    if (byteOffset < 0)
      throw new BackendError("OUT_OF_BOUNDS", `${operation}: ${argument} needs byte ${byteOffset}`, details);
    try {
      this.#backend.fill(byteOffset === 0 ? handle : { handle, byteOffset }, 0, 0, "u8");
    } catch (error) {
      const { code, message } = error as BackendError;
      const what = code === "INVALID_HANDLE" ? "is refused" : `needs bytes up to ${byteOffset}`;
      throw new BackendError(code, `${operation}: ${argument} ${what} (${message})`, {
        ...{ ...details, cause: error },
      });
    }
  }

  play(parts: readonly Part[]): void {
    for (const { bound } of parts) for (const call of bound) makeCall(this.#backend, call);
  }

  dispose(): void {}
}
