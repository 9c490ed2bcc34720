import { hostBytes } from "./arguments.js";
import type { ComputeBackend, HostBytes } from "./backend.js";
import { BackendError } from "./errors.js";
import { type DeviceHandle, describe, type Operand } from "./handles.js";
import { Checks } from "./ops/checks.js";

/** `Float32Array` and the like; also `Float16Array` if the engine has it. */
export type HostArrayType<Values extends ArrayBufferView<ArrayBuffer>> = new (length: number) => Values;

/** Returns a new allocation with the bytes of `source`. The caller may change `source` as soon as this returns. */
export function upload(backend: ComputeBackend, source: HostBytes): DeviceHandle {
  const { byteLength } = hostBytes("upload", "source", source);
  const handle = backend.alloc(byteLength, { zero: false });
  try {
    backend.copyHtoD(handle, source);
  } catch (error) {
    backend.free(handle);
    throw error;
  }
  return handle;
}

/**
 * Returns a new typed array with `length` elements of `source`, as earlier calls left them: `await
 * download(backend, handle, Float32Array, n)`. The elements are not converted.
 */
export async function download<Values extends ArrayBufferView<ArrayBuffer>>(
  backend: ComputeBackend,
  source: Operand,
  type: HostArrayType<Values>,
  length: number,
): Promise<Values> {
  const values = newArray(type, length);
  await backend.copyDtoH(values, source);
  return values;
}

function newArray<Values extends ArrayBufferView<ArrayBuffer>>(
  type: HostArrayType<Values>,
  length: number,
): Values {
  const checks = new Checks("download");
  if (typeof type !== "function" || !("BYTES_PER_ELEMENT" in type))
    checks.fail("type", `is ${describe(type)}; allowed: Float32Array, Uint16Array and the like`);
  checks.count("length", length);
  try {
    return new type(length);
  } catch (cause) {
    throw new BackendError("OUT_OF_MEMORY", `download: the host has no room for ${length} elements`, {
      ...{ operation: "download", argument: "length", cause },
    });
  }
}
