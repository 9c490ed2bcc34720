import {
  type ComputeBackend,
  type DeviceSlice,
  type DType,
  dtypeBytes,
  dtypes,
  elementTypes,
  type OperationName,
} from "@backplane/core";
import { decoded, encoded } from "../elements.js";
import type { Law, LawContext } from "../law.js";
import { bytesOf, check, law, pattern, sameBytes } from "./checks.js";

/** Elements before the operand. */
const before = 3;

/** Returns numbers between 0.5 and 2, or 32 and 128, as stored: every kind is defined on them and none overflows. */
export function samples(count: number, seed: number, dtype: DType): Uint8Array<ArrayBuffer> {
  const { range } = elementTypes[dtype];
  const values = Float32Array.from({ length: count }, (_, i) => 0.5 + (((i + seed) * 37) % 96) / 64);
  return encoded(range === undefined ? values : values.map((x) => 64 * x), dtype);
}

/**
 * Checks that the same computation into a separate output and over an input gives the same numbers. The two
 * may take different kernels, so they are compared to within a few units in the last place; the laws of the
 * operation check how exact either is.
 */
function checkClose(
  got: Uint8Array<ArrayBuffer>,
  expected: Uint8Array<ArrayBuffer>,
  dtype: DType,
  what: string,
): void {
  const count = got.length / dtypeBytes[dtype];
  const [a, b] = [got, expected].map(({ buffer }) => decoded(buffer, 0, count, dtype)) as [
    Float64Array,
    Float64Array,
  ];
  const allowed = closeness[dtype];
  for (let i = 0; i < b.length; i++)
    check(
      Math.abs(a[i]! - b[i]!) <= allowed * Math.max(1, Math.abs(b[i]!)),
      `${what}: element ${i} is ${a[i]}, with a separate output it is ${b[i]}`,
    );
}

/** The relative error that is allowed; none of integers. */
const closeness: Readonly<Record<DType, number>> = {
  ...{ f32: 2 ** -10, f16: 2 ** -8, bf16: 2 ** -6 },
  ...{ i32: 0, u32: 0, u8: 0 },
};

export type Compute = (inputs: readonly DeviceSlice[], output: DeviceSlice) => void;

/** Runs `compute` into a separate output and over each input in turn, and compares. */
export async function compare(
  backend: ComputeBackend,
  dtype: DType,
  contents: readonly Uint8Array<ArrayBuffer>[],
  outputs: readonly number[],
  compute: Compute,
  what: string,
  /** Of the inputs. */
  types: readonly DType[] = contents.map(() => dtype),
): Promise<void> {
  const bytes = contents[outputs[0]!]!.length;
  const byteOffset = before * dtypeBytes[dtype];
  const room = Math.max(...contents.map((content) => content.length)) + 8 * byteOffset;
  const offsetOf = (index: number) => before * dtypeBytes[types[index] ?? dtype];
  const image = (content: Uint8Array<ArrayBuffer>, index: number) => {
    const whole = pattern(room, content.length);
    whole.set(content, offsetOf(index));
    return whole;
  };
  const handles = [...contents, contents[0]!].map(() => backend.alloc(room));
  const places = handles.map((handle, i) => ({ handle, byteOffset: offsetOf(i) }));
  const separate = places.at(-1)!;
  try {
    const reset = () => {
      for (const [i, content] of contents.entries()) backend.copyHtoD(handles[i]!, image(content, i));
    };
    reset();
    compute(places, separate);
    const expected = await bytesOf(backend, separate, bytes);
    for (const index of outputs) {
      reset();
      compute(places, places[index]!);
      const got = await bytesOf(backend, handles[index]!, room);
      checkClose(got.slice(byteOffset, byteOffset + bytes), expected, dtype, `${what} over input ${index}`);
      const whole = image(contents[index]!, index);
      got.set(whole.subarray(byteOffset, byteOffset + bytes), byteOffset);
      sameBytes(got, whole, `${what} over input ${index}: bytes around the output`);
      for (const [i, content] of contents.entries())
        if (i !== index)
          sameBytes(await bytesOf(backend, handles[i]!, room), image(content, i), `${what}: the other input`);
    }
  } finally {
    for (const handle of handles) backend.free(handle);
  }
}

export function inPlaceLaw(
  operation: OperationName,
  name: string,
  run: (context: LawContext) => Promise<void>,
): Law {
  return {
    ...law("in-place", `${operation} ${name}`, run),
    operation,
    exempt: (_capabilities, backend) =>
      dtypes.some((dtype) => backend.supports(operation, { dtype }))
        ? undefined
        : `${operation} is not supported`,
  };
}

/** Every element type and kind that a backend has. */
export function having<Kind extends string | undefined>(
  backend: ComputeBackend,
  operation: OperationName,
  kinds: readonly Kind[],
): { readonly dtype: DType; readonly kind: Kind }[] {
  return dtypes.flatMap((dtype) =>
    kinds.filter((kind) => backend.supports(operation, { dtype, kind })).map((kind) => ({ dtype, kind })),
  );
}
