// Tags: kernels, pure
import {
  type ComputeBackend,
  createBackend,
  type DeviceHandle,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type RopeKind,
  ropeKinds,
} from "@backplane/core";
import { assert } from "chai";
import { isInQuads } from "#src/kernels/rope/index.js";
import { decode, driverOf, encode, findDawn, random } from "./support.js";

interface RopeCall {
  readonly kind: RopeKind;
  readonly dtype: FloatType;
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly half: number;
  /** Elements of a row that are copied. */
  readonly rest?: number;
  /** Positions that the tables have. */
  readonly length: number;
  /** By a list of positions for each batch entry, a quarter of them out of range; or from this one on. */
  readonly by: "list" | number;
  /** Elements in front of the input, which is the output too. */
  readonly before?: number;
}

/** Whole numbers, so that every result is exact. */
function whole(count: number, seed: number): Float32Array {
  const next = random(seed);
  return Float32Array.from({ length: count }, () => Math.floor(next() * 11) - 5);
}

/** Makes a call, in place if something is in front, and looks at every element. */
async function checkCall(backend: ComputeBackend, call: RopeCall): Promise<void> {
  const { kind, dtype, batch, heads, rows, half, rest = 0, length, by, before } = call;
  const size = 2 * half + rest;
  const first = before ?? 0;
  const data = whole(first + batch * heads * rows * size, size);
  const [cos, sin] = [whole(length * half, 2), whole(length * half, 3)];
  const next = random(rows);
  const outside = [-1, length, -(2 ** 31), 2 ** 31 - 1];
  const positions = Int32Array.from({ length: batch * rows }, () =>
    next() < 0.25 ? outside[Math.floor(4 * next())]! : Math.floor(next() * length),
  );
  const expected = data.slice();
  for (let line = 0; line < batch * heads * rows; line++) {
    const [b, r] = [Math.floor(line / rows / heads), line % rows];
    const position = by === "list" ? positions[b * rows + r]! : by + r;
    for (let i = 0; i < half; i++) {
      const near = first + line * size + (kind === "halves" ? i : 2 * i);
      const far = near + (kind === "halves" ? half : 1);
      const [x, y] = [data[near]!, data[far]!];
      const [cosine, sine] = [cos, sin].map((table) => table[position * half + i] ?? 0) as [number, number];
      expected[near] = x * cosine - y * sine;
      expected[far] = x * sine + y * cosine;
    }
  }
  const handles = [encode(data, dtype), encode(cos, "f32"), encode(sin, "f32"), encode(positions, "i32")].map(
    (bytes) => {
      const handle = backend.alloc(bytes.length);
      backend.copyHtoD(handle, bytes);
      return handle;
    },
  ) as [DeviceHandle, DeviceHandle, DeviceHandle, DeviceHandle];
  const [input, cosines, sines, list] = handles;
  const output = before === undefined ? backend.alloc(data.length * dtypeBytes[dtype]) : input;
  const byteOffset = first * dtypeBytes[dtype];
  backend.rope({
    ...{ kind, dtype, batch, heads, rows, size, rotated: 2 * half, length, cos: cosines, sin: sines },
    ...(by === "list" ? { positions: list, positionStride: rows } : { start: by }),
    ...{ input: { handle: input, byteOffset }, output: { handle: output, byteOffset } },
  });
  const bytes = new Uint8Array(data.length * dtypeBytes[dtype]);
  await backend.copyDtoH(bytes, output);
  for (const handle of new Set([...handles, output])) backend.free(handle);
  const got = decode(bytes, dtype);
  const wrong = expected.findIndex((value, i) => got[i] !== value);
  if (wrong >= 0)
    assert.fail(`${JSON.stringify(call)}: element ${wrong - first} is ${got[wrong]}, not ${expected[wrong]}`);
}

const limited = [
  // Programs with more workgroups than one dimension has start up to a row of them too many.
  { name: "in grids of two dimensions", limits: { maxComputeWorkgroupsPerDimension: 7 } },
  { name: "above the binding limit", limits: { maxStorageBufferBindingSize: 20_000 } },
] as const;

type Sizes = Omit<RopeCall, "kind" | "dtype">;

/** Quads, single pairs and words; heads that an invocation has no four of; in place at odd elements. */
const calls: readonly Sizes[] = [
  { batch: 1, heads: 5, rows: 33, half: 32, length: 40, by: 0 },
  { batch: 2, heads: 3, rows: 60, half: 15, rest: 3, length: 70, by: 5, before: 0 },
  { batch: 3, heads: 2, rows: 41, half: 8, rest: 8, length: 50, by: "list", before: 8 },
  { batch: 2, heads: 1, rows: 90, half: 7, length: 100, by: "list", before: 3 },
  // Tables that are longer than the limit: from a position on, and by a list of one batch entry and of several.
  { batch: 2, heads: 2, rows: 20, half: 16, length: 2000, by: 1500 },
  { batch: 1, heads: 3, rows: 30, half: 12, length: 3000, by: "list" },
  { batch: 4, heads: 1, rows: 6, half: 12, length: 3000, by: "list", before: 1 },
];

for (const { name, limits } of limited)
  describe(`webgpu rope ${name}`, () => {
    let backend: ComputeBackend;
    before(async () => {
      backend = createBackend(driverOf(findDawn, { limits }));
      await backend.init();
    });
    after(() => backend.dispose());

    for (const kind of ropeKinds)
      for (const dtype of floatTypes)
        it(`turns every pair, ${kind} of ${dtype}`, async () => {
          for (const sizes of calls) await checkCall(backend, { ...sizes, kind, dtype });
        });
  });

describe("webgpu rope plans", () => {
  it("take quads if all rows and tables are made of them", () => {
    type Shape = Parameters<typeof isInQuads>[0];
    const at = (byteOffset: number) => ({ byteOffset });
    const plain: Shape = {
      ...{ dtype: "f16", size: 76, rotated: 64, inputStrides: [0, 760, 76], outputStrides: [0, 76, 152] },
      ...{ input: at(8), output: at(24), cos: at(16), sin: at(32) },
    };
    const single: Shape = { ...plain, dtype: "f32", input: at(16), output: at(32) };
    for (const shape of [plain, single]) {
      assert.isTrue(isInQuads(shape));
      for (const change of [
        { rotated: 60 },
        { size: 78 },
        { inputStrides: [0, 762, 76] as const },
        { outputStrides: [2, 76, 152] as const },
        { input: at(4) },
        { output: at(4) },
        { cos: at(8) },
        { sin: at(4) },
      ])
        assert.isFalse(isInQuads({ ...shape, ...change }), JSON.stringify(change));
    }
    assert.isFalse(isInQuads({ ...single, input: at(8) }));
  });
});
