import {
  type ArithmeticKind,
  arithmeticKinds,
  type ComputeBackend,
  type DeviceSlice,
  decodeFloat16,
  dtypeBytes,
  encodeFloat16,
  type FloatType,
  floatTypes,
  type UnaryKind,
  unaryKinds,
} from "@backplane/core";
import type { Law, LawContext } from "../law.js";
import { bytesOf, check, law, pattern, sameBytes } from "./support.js";

/** Sizes around vectors, workgroups and the chunks of threads. */
const counts = [1, 3, 4, 5, 64, 257, 5000];

/** Elements before the operand. */
const before = 3;

/** Returns numbers between 0.5 and 2, as stored: every kind is defined on them and none overflows. */
function samples(count: number, seed: number, dtype: FloatType): Uint8Array<ArrayBuffer> {
  const values = Float32Array.from({ length: count }, (_, i) => 0.5 + (((i + seed) * 37) % 96) / 64);
  return new Uint8Array((dtype === "f32" ? values : encodeFloat16(values)).buffer);
}

function numbers(bytes: Uint8Array<ArrayBuffer>, dtype: FloatType): ArrayLike<number> {
  return dtype === "f32" ? new Float32Array(bytes.buffer) : decodeFloat16(new Uint16Array(bytes.buffer));
}

/**
 * Checks that the same computation into a separate output and over an input gives the same numbers. The two
 * may take different kernels, so they are compared to within a few units in the last place; the laws of the
 * operation check how exact either is.
 */
function checkClose(
  got: Uint8Array<ArrayBuffer>,
  expected: Uint8Array<ArrayBuffer>,
  dtype: FloatType,
  what: string,
): void {
  const [a, b] = [numbers(got, dtype), numbers(expected, dtype)];
  const allowed = dtype === "f32" ? 2 ** -10 : 2 ** -8;
  for (let i = 0; i < b.length; i++)
    check(
      Math.abs(a[i]! - b[i]!) <= allowed * Math.max(1, Math.abs(b[i]!)),
      `${what}: element ${i} is ${a[i]}, with a separate output it is ${b[i]}`,
    );
}

type Compute = (inputs: readonly DeviceSlice[], output: DeviceSlice) => void;

/** Runs `compute` into a separate output and over each input in turn, and compares. */
async function compare(
  backend: ComputeBackend,
  dtype: FloatType,
  contents: readonly Uint8Array<ArrayBuffer>[],
  outputs: readonly number[],
  compute: Compute,
  what: string,
): Promise<void> {
  const bytes = contents[outputs[0]!]!.length;
  const byteOffset = before * dtypeBytes[dtype];
  const room = Math.max(...contents.map((content) => content.length)) + 2 * byteOffset;
  const image = (content: Uint8Array<ArrayBuffer>) => {
    const whole = pattern(room, content.length);
    whole.set(content, byteOffset);
    return whole;
  };
  const handles = [...contents, contents[0]!].map(() => backend.alloc(room));
  const places = handles.map((handle) => ({ handle, byteOffset }));
  const separate = places.at(-1)!;
  try {
    const reset = () => {
      for (const [i, content] of contents.entries()) backend.copyHtoD(handles[i]!, image(content));
    };
    reset();
    compute(places, separate);
    const expected = await bytesOf(backend, separate, bytes);
    for (const index of outputs) {
      reset();
      compute(places, places[index]!);
      const got = await bytesOf(backend, handles[index]!, room);
      checkClose(got.slice(byteOffset, byteOffset + bytes), expected, dtype, `${what} over input ${index}`);
      const whole = image(contents[index]!);
      got.set(whole.subarray(byteOffset, byteOffset + bytes), byteOffset);
      sameBytes(got, whole, `${what} over input ${index}: bytes around the output`);
      for (const [i, content] of contents.entries())
        if (i !== index)
          sameBytes(await bytesOf(backend, handles[i]!, room), image(content), `${what}: the other input`);
    }
  } finally {
    for (const handle of handles) backend.free(handle);
  }
}

function inPlaceLaw(
  operation: "unary" | "binary",
  name: string,
  run: (context: LawContext) => Promise<void>,
): Law {
  return {
    ...law("in-place", `${operation} ${name}`, run),
    operation,
    exempt: (_capabilities, backend) =>
      floatTypes.some((dtype) => backend.supports(operation, { dtype }))
        ? undefined
        : `${operation} is not supported`,
  };
}

/** Every element type and kind that a backend has. */
function having<Kind extends string>(
  backend: ComputeBackend,
  operation: "unary" | "binary",
  kinds: readonly Kind[],
): { readonly dtype: FloatType; readonly kind: Kind }[] {
  return floatTypes.flatMap((dtype) =>
    kinds.filter((kind) => backend.supports(operation, { dtype, kind })).map((kind) => ({ dtype, kind })),
  );
}

export const inPlaceLaws: readonly Law[] = [
  inPlaceLaw("unary", "may write exactly over its input", async ({ backend, forEach }) => {
    const cases = having<UnaryKind>(backend, "unary", unaryKinds).flatMap((given, i) =>
      // All sizes for the first kinds, one for each of the others.
      (i % 7 === 0 ? counts : [counts[i % counts.length]!]).map((n) => ({ ...given, n })),
    );
    await forEach(cases, async ({ dtype, kind, n }) => {
      const run: Compute = ([input], output) => backend.unary({ kind, dtype, n, input: input!, output });
      await compare(backend, dtype, [samples(n, 0, dtype)], [0], run, `${kind} ${dtype} of ${n}`);
    });
  }),

  inPlaceLaw("binary", "may write exactly over either input", async ({ backend, forEach }) => {
    const cases = having<ArithmeticKind>(backend, "binary", arithmeticKinds).flatMap((given, i) =>
      (i % 7 === 0 ? counts : [counts[i % counts.length]!]).map((n) => ({ ...given, n })),
    );
    await forEach(cases, async ({ dtype, kind, n }) => {
      const run: Compute = ([a, b], output) => backend.binary({ kind, dtype, n, a: a!, b: b!, output });
      const contents = [samples(n, 0, dtype), samples(n, 5, dtype)];
      await compare(backend, dtype, contents, [0, 1], run, `${kind} ${dtype} of ${n}`);
    });
  }),

  inPlaceLaw("binary", "may write over an input that is both of its inputs", async ({ backend, forEach }) => {
    await forEach(having<ArithmeticKind>(backend, "binary", ["mul", "sub"]), async ({ dtype, kind }) => {
      const run: Compute = ([a], output) => backend.binary({ kind, dtype, n: 300, a: a!, b: a!, output });
      await compare(backend, dtype, [samples(300, 0, dtype)], [0], run, `${kind} ${dtype} with itself`);
    });
  }),

  inPlaceLaw("binary", "may write over the input that is not repeated", async ({ backend, forEach }) => {
    await forEach(having<ArithmeticKind>(backend, "binary", ["add", "div"]), async ({ dtype, kind }) => {
      const contents = [samples(9 * 33, 0, dtype), samples(33, 5, dtype)];
      const row: Compute = ([a, b], output) =>
        backend.binary({
          ...{ kind, dtype, shapeA: [9, 33], shapeB: [33] },
          ...{ a: a!, b: b!, output },
        });
      await compare(backend, dtype, contents, [0], row, `${kind} ${dtype} of a matrix and a row`);
      const scalar: Compute = ([a], output) =>
        backend.binary({
          ...{ kind, dtype, n: 9 * 33, b: { scalar: 1.5 } },
          ...{ a: a!, output },
        });
      await compare(
        backend,
        dtype,
        contents.slice(0, 1),
        [0],
        scalar,
        `${kind} ${dtype} of a matrix and a scalar`,
      );
    });
  }),
];
