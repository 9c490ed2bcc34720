import { type ComputeBackend, type DeviceHandle, dtypeBytes } from "@backplane/core";

/** Arrays on a device that live and end together. */
export class Allocations {
  readonly #backend: ComputeBackend;
  readonly #handles: DeviceHandle[] = [];

  constructor(backend: ComputeBackend) {
    this.#backend = backend;
  }

  /** `count` zeros of f32. */
  zeros(count: number): DeviceHandle {
    return this.bytes(count * dtypeBytes.f32);
  }

  bytes(count: number): DeviceHandle {
    const handle = this.#backend.alloc(count);
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
