/** Numbers in [-scale, scale) that are the same in every run: a linear congruential generator. */
export function numbers(count: number, seed: number, scale: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return scale * (state / 2 ** 31 - 1);
  });
}

/** A file of the format safetensors, with so many spaces behind its header. */
export function safetensors(
  arrays: Readonly<Record<string, { readonly shape: readonly number[]; readonly values: Float32Array }>>,
  spaces = 0,
): Uint8Array {
  let place = 0;
  const entries = Object.entries(arrays).map(([name, { shape, values }]) => {
    const from = place;
    place += values.byteLength;
    return [name, { dtype: "F32", shape, data_offsets: [from, place] }];
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)) + " ".repeat(spaces));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const bodies = Object.values(arrays).map(({ values }) => Buffer.from(values.buffer));
  return Buffer.concat([length, header, ...bodies]);
}

const shapes = {
  ...{ "conv1.weight": [8, 1, 5, 5], "conv1.bias": [8], "conv2.weight": [16, 8, 5, 5] },
  ...{ "conv2.bias": [16], "fc.weight": [256, 10], "fc.bias": [10] },
};

/** The arrays of a network that was never trained. */
export const arrays = Object.fromEntries(
  Object.entries(shapes).map(([name, shape], i) => {
    const count = shape.reduce((a, b) => a * b);
    return [name, { shape, values: numbers(count, i + 1, 2 / Math.sqrt(count / shape[0]!)) }];
  }),
);

export const pictures: readonly Float32Array[] = [0, 1, 2].map((i) =>
  numbers(28 * 28, 77 + i, 127).map((value) => Math.round(value + 127)),
);
