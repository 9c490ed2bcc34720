import { type ComputeBackend, type DeviceHandle, dtypeBytes } from "@backplane/core";

/** Arrays of f32 on a device that live and end together. */
export class Allocations {
  readonly #backend: ComputeBackend;
  readonly #handles: DeviceHandle[] = [];

  constructor(backend: ComputeBackend) {
    this.#backend = backend;
  }

  /** `count` zeros. */
  zeros(count: number): DeviceHandle {
    const handle = this.#backend.alloc(count * dtypeBytes.f32);
    this.#handles.push(handle);
    return handle;
  }

  copyOf(values: Float32Array): DeviceHandle {
    const handle = this.zeros(values.length);
    this.#backend.copyHtoD(handle, values);
    return handle;
  }

  free(): void {
    for (const handle of this.#handles.splice(0)) this.#backend.free(handle);
  }
}
