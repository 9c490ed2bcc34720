import {
  type ArithmeticKind,
  type ComputeBackend,
  type DeviceHandle,
  decodeFloat16,
  dtypeBytes,
  encodeFloat16,
  type FloatType,
  type FloatUnaryKind,
} from "@backplane/core";

/** Elements of one call: no more than every adapter takes in one buffer. */
const callElements = 2 ** 20;

/** The numbers as an element type holds them. */
export function rounded(dtype: FloatType, values: ArrayLike<number>): Float32Array {
  return dtype === "f32" ? Float32Array.from(values) : decodeFloat16(encodeFloat16(values));
}

export function runUnary(
  backend: ComputeBackend,
  dtype: FloatType,
  kind: FloatUnaryKind,
  values: Float32Array,
): Promise<Float32Array> {
  return run(backend, dtype, [values], (n, [input], output) =>
    backend.unary({ kind, n, input: input!, output, dtype }),
  );
}

export function runBinary(
  backend: ComputeBackend,
  dtype: FloatType,
  kind: ArithmeticKind,
  a: Float32Array,
  b: Float32Array,
): Promise<Float32Array> {
  return run(backend, dtype, [a, b], (n, [first, second], output) =>
    backend.binary({ kind, n, a: first!, b: second!, output, dtype }),
  );
}

/** Uploads, calls and reads back, piece by piece. */
async function run(
  backend: ComputeBackend,
  dtype: FloatType,
  inputs: readonly Float32Array[],
  call: (n: number, inputs: readonly DeviceHandle[], output: DeviceHandle) => void,
): Promise<Float32Array> {
  const count = inputs[0]!.length;
  const results = new Float32Array(count);
  const bytes = Math.min(count, callElements) * dtypeBytes[dtype];
  const [output, ...handles] = [bytes, ...inputs.map(() => bytes)].map((size) => backend.alloc(size));
  try {
    for (let start = 0; start < count; start += callElements) {
      const end = Math.min(start + callElements, count);
      for (const [i, handle] of handles.entries()) {
        const piece = inputs[i]!.subarray(start, end);
        backend.copyHtoD(handle, dtype === "f32" ? piece : encodeFloat16(piece));
      }
      call(end - start, handles, output!);
      const stored = dtype === "f32" ? new Float32Array(end - start) : new Uint16Array(end - start);
      await backend.copyDtoH(stored, output!);
      results.set(stored instanceof Uint16Array ? decodeFloat16(stored) : stored, start);
    }
  } finally {
    for (const handle of [output!, ...handles]) backend.free(handle);
  }
  return results;
}
