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

/** How numbers become elements, and elements numbers again. */
interface Codec {
  encode(values: ArrayLike<number>): Float32Array | Uint16Array;
  /** The numbers of `elements`, and the array that they are read into. */
  room(count: number): { readonly elements: Float32Array | Uint16Array; numbers(): Float32Array };
}

const codecs: Readonly<Record<FloatType, Codec>> = {
  f32: {
    encode: (values) => Float32Array.from(values),
    room(count) {
      const elements = new Float32Array(count);
      return { elements, numbers: () => elements };
    },
  },
  f16: {
    encode: encodeFloat16,
    room(count) {
      const elements = new Uint16Array(count);
      return { elements, numbers: () => decodeFloat16(elements) };
    },
  },
};

/** The numbers as an element type holds them. */
export function rounded(dtype: FloatType, values: ArrayLike<number>): Float32Array {
  const { encode, room } = codecs[dtype];
  const { elements, numbers } = room(values.length);
  elements.set(encode(values));
  return numbers();
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
        backend.copyHtoD(handle, codecs[dtype].encode(piece));
      }
      call(end - start, handles, output!);
      const { elements, numbers } = codecs[dtype].room(end - start);
      await backend.copyDtoH(elements, output!);
      results.set(numbers(), start);
    }
  } finally {
    for (const handle of [output!, ...handles]) backend.free(handle);
  }
  return results;
}
