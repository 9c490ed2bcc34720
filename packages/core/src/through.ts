import type { Entry } from "./entries.js";
import type { DeviceSlice, HandleTable } from "./handles.js";
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

/** What moves between backends know of backends of `createBackend`, and nobody else. */
export interface MovesDirectly {
  /**
   * Passes on the bytes of a place as `BackendDriver.hostBytes` returns them, when everything enqueued so far has finished.
   * They keep their place until the promise of `use` settles, even if the handle is freed. If memory that is not shared
   * has moved meanwhile, so that the view is detached and `use` has failed, it is called again. Returns false, and has
   * called nothing, if there are none.
   */
  withHostBytes(
    place: DeviceSlice,
    byteLength: number,
    isWritten: boolean,
    use: (bytes: Uint8Array<ArrayBufferLike>) => Promise<void>,
  ): Promise<boolean>;
  /** As `copyHtoD`, but `source` must not change until the promise resolves. */
  copyFrom(destination: DeviceSlice, source: Uint8Array<ArrayBufferLike>): Promise<void>;
}
