import type { Entry } from "./entries.js";
import type { HandleTable } from "./handles.js";
import type { Operation } from "./ops/operation.js";

/**
 * The method by which a `SwitchableBackend` makes a call on a backend of `createBackend`. The operands have handles of the
 * table, whose entries have those of the backend. Copies of the arguments with other handles would take half as long as
 * the rest of a small call. Returns false, and has done nothing, if the call must be made by `run`.
 */
export const runThrough: unique symbol = Symbol("run with handles of another table");

export interface RunsThrough {
  [runThrough](operation: Operation, args: object, handles: HandleTable<Entry>): boolean;
}
