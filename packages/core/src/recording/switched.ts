import { withHandle } from "../arguments.js";
import type { ComputeBackend } from "../backend.js";
import { dtypeBytes } from "../dtype.js";
import { assertHeld, type Entry, innerHandle } from "../entries.js";
import type { DeviceHandle, HandleTable, Operand } from "../handles.js";
import type { BackendSlot } from "../slot.js";
import { forEachHandle, makeCall, nameOf, type RecordedCall, withOperands } from "./calls.js";
import { type Collected, type Part, type Player, RUN } from "./parts.js";
import type { Recording } from "./recording.js";

/** The switchable backend itself, as far as recordings need it. */
export interface Switched {
  readonly backend: ComputeBackend;
  readonly slot: BackendSlot;
  readonly table: HandleTable<Entry>;
  collect(body: () => void, add: Collected): void;
  /** Checks a call without making it. */
  check(call: RecordedCall): void;
}

/**
 * Carries out recordings by one of the backend in use, which is made again after a swap. While allocations are being
 * moved or their contents are lost, makes the calls one by one: the switchable backend has rules for each.
 */
export class SwitchedPlayer implements Player {
  readonly #switched: Switched;
  /** The backend that was in use last, and its recording. */
  #inner: ComputeBackend | undefined;
  #recording: Recording | undefined;

  constructor(switched: Switched) {
    this.#switched = switched;
  }

  get ended(): number {
    return this.#switched.table.ended;
  }

  assertOpen(operation: string): void {
    this.#switched.slot.assertOpen(operation);
  }

  collect(body: () => void, add: Collected): void {
    this.#switched.collect(body, add);
  }

  plan(_place: number, calls: readonly RecordedCall[], findings: readonly unknown[] | undefined): void {
    if (findings === undefined) for (const call of calls) this.#switched.check(call);
  }

  assertLive(handle: DeviceHandle, operation: string, argument: string): void {
    this.#switched.table.get(handle, operation, argument);
  }

  play(parts: readonly Part[], operands: ReadonlyMap<DeviceHandle, Operand>, values: object): void {
    const { slot, backend, table } = this.#switched;
    const inner = slot.assertOpen(RUN);
    // A backend may be older than recordings.
    if (slot.isDeferring || slot.hasLost || (inner.record as unknown) === undefined) {
      const calls = parts.flatMap(({ bound }) => bound);
      this.#assertHeld(calls);
      for (const call of calls) makeCall(backend, call);
      return;
    }
    if (this.#inner !== inner) {
      this.#recording = this.#recordOn(inner, parts, values);
      this.#inner = inner;
    }
    const translated = Array.from(operands, ([handle, operand]): [DeviceHandle, Operand] => [
      innerHandle(table.get(handle, RUN, "operands"), RUN, "operands"),
      this.#translate(operand, RUN, "operands"),
    ]);
    this.#recording!.run({ operands: new Map(translated), values });
  }

  dispose(): void {
    // The one of a backend that is not in use any more has gone with it.
    if (this.#inner === this.#switched.slot.inner) this.#recording?.dispose();
    this.#recording = undefined;
    this.#inner = undefined;
  }

  #recordOn(inner: ComputeBackend, parts: readonly Part[], values: object): Recording {
    const make = (call: RecordedCall): void => {
      const name = nameOf(call);
      const translated = withOperands(call, (argument, operand) => this.#translate(operand, name, argument));
      makeCall(inner, translated);
    };
    return inner.record<object>((vary) => {
      // At each run a part has the calls for the values of that run.
      for (const part of parts) {
        const makeAll = () => part.calls.forEach(make);
        if (part.vary === undefined) makeAll();
        else vary(makeAll);
      }
    }, values);
  }

  #translate(operand: Operand, operation: string, argument: string): Operand {
    return withHandle(operand, (handle) =>
      innerHandle(this.#switched.table.get(handle, operation, argument), operation, argument),
    );
  }

  /** Throws `DEVICE_LOST` if a call needs contents that were lost and that no call before it writes anew. */
  #assertHeld(calls: readonly RecordedCall[]): void {
    const { table } = this.#switched;
    const written = new Set<Entry>();
    for (const call of calls) {
      const name = nameOf(call);
      forEachHandle(call, (handle, argument) => {
        const entry = table.get(handle, name, argument);
        const isWritten = call.operation === "fill" && call.count * dtypeBytes[call.dtype] === entry.bytes;
        if (isWritten) written.add(entry);
        else if (!written.has(entry)) assertHeld(entry, name, argument);
      });
    }
  }
}
