import type { DeviceHandle, Operand } from "../handles.js";

/**
 * Calls that were checked and planned once, to be carried out any number of times; see `ComputeBackend.record`.
 *
 * All operands of the recorded calls must stay allocated, also those that a run replaces.
 */
export interface Recording<Values extends object = object> extends Disposable {
  /**
   * Enqueues all recorded calls in order, as if they were made now. A run without changes only enqueues. One
   * with changes first checks and plans again those calls that differ from the run before. All errors of
   * arguments and handles are thrown before anything is enqueued. Throws `INVALID_HANDLE` if an operand was freed, and
   * `DISPOSED` after `dispose`.
   */
  run(changes?: RunChanges<Values>): void;
  /** Gives back what the recording holds. Runs already enqueued still complete. Idempotent. */
  dispose(): void;
}

/** What one run does otherwise than the calls were recorded. Every run starts from what was recorded. */
export interface RunChanges<Values extends object> {
  /**
   * Operands that take the place of recorded handles. For a slice, its offset is added to the offset of
   * the recorded operand. `INVALID_ARGUMENT` if no recorded call uses the handle.
   */
  readonly operands?: ReadonlyMap<DeviceHandle, Operand>;
  /** New values of parts that vary. */
  readonly values?: Partial<Values>;
}

/**
 * Marks a part of a recording that depends on values. `part` makes its calls when it is recorded, and again at each
 * run with values other than those of the run before; its calls are then checked and planned again. It
 * must depend on nothing else that changes. Values are compared one by one with `Object.is`.
 */
export type Vary<Values extends object> = (part: (values: Values) => void) => void;

/** Makes recordings. */
export interface RecordsCalls {
  /**
   * Records the calls that `body` makes on this backend, without carrying them out. They are checked as usual.
   * Operations, `copyDtoD` and `fill` can be recorded. Other calls that need the device, such as `alloc`, `copyHtoD` and
   * `record`, are refused with `BUSY` until `body` returns. `body` must not be asynchronous.
   *
   *   const step = backend.record(() => {
   *     backend.gemm({ m, n, k, a, b, c });
   *     backend.unary({ kind: "relu", n: m * n, input: c, output: c });
   *   });
   *   step.run();
   *   step.run({ operands: new Map([[a, other]]) });
   *
   * Scalars, sizes and offsets that differ from run to run belong in parts that vary:
   *
   *   const step = backend.record((vary) => {
   *     backend.gemm(...);
   *     vary(({ position }) => backend.rope({ ..., start: position }));
   *   }, { position: 0 });
   *   step.run({ values: { position: 1 } });
   */
  record(body: () => void): Recording;
  record<Values extends object>(body: (vary: Vary<Values>) => void, values: Values): Recording<Values>;
}
