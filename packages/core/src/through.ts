import type { Entry } from "./entries.js";
import type { HandleTable } from "./handles.js";
import type { Operation } from "./ops/operation.js";

/** What a `SwitchableBackend` knows of backends of `createBackend`, and nobody else. */
export interface RunsThrough {
  /**
   * Makes a call whose operands have handles of another table; its entries have those of this backend. Copies of the
   * arguments with other handles would take half as long as the rest of a small call. Returns false, and has done
   * nothing, if the call must be made by `run`.
   */
  runThrough(operation: Operation, args: object, handles: HandleTable<Entry>): boolean;
}
