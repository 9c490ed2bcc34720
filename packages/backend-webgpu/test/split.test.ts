// Tags: kernels, pure, long
import { decodeFloat16, type GemmProblem } from "@backplane/core";
import { assert } from "chai";
import { create } from "webgpu";
import type { DeviceFeatures } from "#src/device/features.js";
import { type GemmShape, gemmVariants, runGemm } from "#src/kernels/gemm/index.js";
import { WIDE } from "#src/kernels/gemm/split/pass.wgsl.js";
import { splitProgram } from "#src/kernels/gemm/split/product.wgsl.js";
import { enqueueSplit, octavesFor } from "#src/kernels/gemm/split/split.js";
import { RUN } from "#src/kernels/gemm/split/split-tile.js";
import { productTiles } from "#src/kernels/tiles/tile.js";
import type { BufferRegion, KernelContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { withoutMatrixUnits } from "./emulated-matrices.js";
import { type Expected, epsilon, finishedSum, gamma, type ProductDevice, withProducts } from "./products.js";
import { random } from "./support.js";

const rows = gemmVariants.filter((variant) => variant.kind === "split");
const [row] = rows;

/** A device that could do what the others here only pretend to. */
const capable = (real: DeviceFeatures): DeviceFeatures => ({
  ...real,
  ...{ subgroupMinSize: 32, subgroupMaxSize: 32, subgroupMatrices: ["16x16x16"], splitsProducts: true },
  limits: {
    ...real.limits,
    maxComputeWorkgroupStorageSize: 49152,
    maxComputeInvocationsPerWorkgroup: 1024,
  },
});

interface Sizes {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch?: number;
  readonly transA?: boolean;
  readonly transB?: boolean;
  /** Elements beyond the tight leading dimensions, and in front of every operand. */
  readonly pad?: number;
  readonly broadcastB?: boolean;
}

/** A product whose parts were made by the device, with all that was bound for the product of parts. */
interface Prepared {
  readonly sizes: Required<Sizes>;
  /** op(A)[matrix][row][p] and op(B)[matrix][p][column]. */
  readonly left: (matrix: number, row: number, p: number) => number;
  readonly right: (matrix: number, p: number, column: number) => number;
  /** What the product would have read and written. */
  readonly parameters: Readonly<Record<string, number>>;
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly exponents: Int32Array;
  readonly blocks: Uint32Array;
  /** C after the plain product has had its turn; it was full of `UNTOUCHED`. */
  readonly c: Float32Array;
}

const UNTOUCHED = 12345;

/** Runs all that belongs to a split product except for the product of parts, which needs matrix units. */
async function prepare(device: ProductDevice, given: Sizes, draw: () => number): Promise<Prepared> {
  const sizes = { batch: 1, transA: false, transB: false, pad: 0, broadcastB: false, ...given };
  const { m, n, k, batch, transA, transB, pad, broadcastB } = sizes;
  const [lda, ldb] = [(transA ? m : k) + pad, (transB ? k : n) + pad];
  const strideA = (transA ? k : m) * lda;
  const strideB = broadcastB ? 0 : (transB ? n : k) * ldb;
  const fill = (length: number) => Float32Array.from({ length }, draw);
  const valuesA = fill(batch * strideA);
  const valuesB = fill((broadcastB ? 1 : batch) * (transB ? n : k) * ldb);
  const regions = {
    a: device.place(valuesA, "f32", pad),
    b: device.place(valuesB, "f32", pad),
    c: device.place(new Float32Array(batch * m * n).fill(UNTOUCHED), "f32", pad),
  };
  const problem: GemmProblem<DeviceMemory> = {
    ...{ dtype: "f32", m, n, k, alpha: 1, beta: 0, transA, transB, lda, ldb, ldc: n, batch },
    ...{ strideA, strideB, strideC: m * n, ...regions, bias: undefined, activation: undefined },
  };
  const scratch: DeviceMemory[] = [];
  let bound: Readonly<Record<string, BufferRegion>> = {};
  let parameters: Readonly<Record<string, number>> = {};
  device.driver.withContext((context) => {
    const withoutMatrices: KernelContext = {
      ...{ copy: context.copy.bind(context), fill: context.fill.bind(context) },
      features: capable(context.features),
      dispatch: (program, operands, values, workgroups) => {
        if (!program.source.includes("subgroup_matrix")) {
          context.dispatch(program, operands, values, workgroups);
          return;
        }
        bound = operands as Readonly<Record<string, BufferRegion>>;
        parameters = values as Readonly<Record<string, number>>;
      },
      scratch: (bytes) => {
        const memory = device.driver.alloc(bytes, false);
        scratch.push(memory);
        return { memory, byteOffset: 0, byteLength: bytes };
      },
    };
    runGemm(withoutMatrices, problem, row!.name);
  });
  const bytes = async ({ memory, byteOffset, byteLength }: BufferRegion) => {
    const read = new Uint8Array(byteLength);
    await device.driver.read(read, memory, byteOffset);
    return read.buffer;
  };
  const prepared: Prepared = {
    ...{ sizes, parameters },
    left: (matrix, i, p) => valuesA[matrix * strideA + (transA ? p * lda + i : i * lda + p)]!,
    right: (matrix, p, j) => valuesB[matrix * strideB + (transB ? j * ldb + p : p * ldb + j)]!,
    a: decodeFloat16(new Uint16Array(await bytes(bound.a!))),
    b: decodeFloat16(new Uint16Array(await bytes(bound.b!))),
    exponents: new Int32Array(await bytes(bound.exponents!)),
    blocks: new Uint32Array(await bytes(bound.blocks!)),
    c: new Float32Array(await bytes(regions.c)),
  };
  device.free(...Object.values(regions));
  for (const memory of scratch) device.driver.free(memory);
  return prepared;
}

/** The parts of one element, scaled back; `line` counts through all matrices. */
function joined(parts: Float32Array, pitch: number, exponent: number, line: number, p: number) {
  const at = line * pitch + Math.floor(p / RUN) * 2 * RUN + (p % RUN);
  return { high: parts[at]! * 2 ** exponent, low: parts[at + RUN]! * 2 ** (exponent - 11) };
}

/**
 * Finishes in float64 what the device has prepared, as the product of parts does, and holds every element
 * of C to the bound of products of f32. Answers which of them the plain product had to compute.
 */
function checkResults(prepared: Prepared, allowance = 1): boolean[] {
  const { sizes, left, right, parameters, a, b, exponents, blocks, c } = prepared;
  const { m, n, k, batch } = sizes;
  const word = (name: string) => parameters[name]!;
  const plain: boolean[] = [];
  for (let matrix = 0; matrix < batch; matrix++)
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const lineA = matrix * word("row_step") + i;
        const lineB = matrix * word("column_step") + j;
        const exponentA = exponents[lineA]!;
        const exponentB = exponents[word("column_exponents") + lineB]!;
        const rowBlock = blocks[matrix * word("row_block_step") + Math.floor(i / row!.tile.rows)]!;
        const columnBlock =
          blocks[
            word("column_blocks") + matrix * word("column_block_step") + Math.floor(j / row!.tile.columns)
          ]!;
        let [value, magnitude, sum] = [0, 0, 0];
        for (let p = 0; p < k; p++) {
          const exact = left(matrix, i, p) * right(matrix, p, j);
          value += exact;
          magnitude += Math.abs(exact);
          const x = joined(a, word("a_pitch"), exponentA, lineA, p);
          const y = joined(b, word("b_pitch"), exponentB, lineB, p);
          sum += x.high * y.high + x.high * y.low + x.low * y.high;
        }
        const isPlain = (rowBlock | columnBlock) !== 0;
        const got = c[(matrix * m + i) * n + j]!;
        plain.push(isPlain);
        if (isPlain) sum = got;
        else {
          assert.equal(got, UNTOUCHED, `element ${i}, ${j} was left to the product of parts`);
          assert.isTrue(exponentA !== WIDE && exponentB !== WIDE, `wide lines at ${i}, ${j}`);
        }
        if (!Number.isFinite(magnitude)) continue;
        const error = Math.abs(sum - value);
        assert.isAtMost(error, allowance * gamma(k + 3) * magnitude, `element ${i}, ${j} of ${matrix}`);
      }
  return plain;
}

/** Numbers of either sign, with magnitudes spread over so many powers of two below 2^`top`. */
function spread(octaves: number, seed: number, top = 0): () => number {
  const next = random(seed);
  return () => (next() < 0.5 ? -1 : 1) * Math.fround(2 ** (top - octaves * next()) * (1 + next() / 2));
}

describe("webgpu split products", () => {
  const products = withProducts();

  for (const sizes of [
    { m: 3, n: 5, k: 16 },
    { m: 9, n: 7, k: 17 },
    { m: 9, n: 7, k: 17, transA: true, transB: true, pad: 3 },
    { m: 4, n: 40, k: 300, transB: true },
    { m: 40, n: 4, k: 132, transA: true, pad: 1 },
    { m: 6, n: 130, k: 40, batch: 2, broadcastB: true },
    { m: 131, n: 6, k: 40, batch: 3, transA: true, transB: true },
  ])
    it(`split ${JSON.stringify(sizes)} within the bound of f32`, async () => {
      for (const [octaves, top] of [
        [1, 0],
        [24, 13],
        [26, -70],
        [26, 98],
      ] as const) {
        const prepared = await prepare(products(), sizes, spread(octaves, sizes.k, top));
        assert.notInclude(checkResults(prepared), true, `${octaves} octaves below 2^${top}`);
      }
    });

  it("keep all that two numbers of f16 can, and pad with zeros", async () => {
    const k = 37;
    const { a, exponents, left, parameters } = await prepare(products(), { m: 8, n: 1, k }, spread(27, 5));
    for (let i = 0; i < 8; i++) {
      const pitch = parameters.a_pitch!;
      assert.equal(pitch, Math.ceil((2 * 48) / row!.tile.depth) * row!.tile.depth);
      for (let p = 0; p < pitch / 2; p++) {
        const { high, low } = joined(a, pitch, exponents[i]!, i, p);
        const value = p < k ? left(0, i, p) : 0;
        assert.isAtMost(Math.abs(high + low - value), epsilon * Math.abs(value));
        assert.isAtMost(Math.abs(low), 2 ** -11 * Math.abs(value) * (1 + epsilon));
      }
    }
  });

  it("leave wide lines to the plain product, with their block and no other", async () => {
    const { rows: height, columns: width } = row!.tile;
    const k = 16;
    const below = 2 ** -(octavesFor(k) + 1);
    for (const [isRow, line, value, whole] of [
      [true, height + 1, below, false],
      [false, width + 1, below, false],
      [true, 77, below, false],
      [false, 0, below, false],
      [true, height, 2 ** -130, false],
      [true, 5, Number.NaN, false],
      [false, width, Number.POSITIVE_INFINITY, false],
      [true, 99, Number.NEGATIVE_INFINITY, true],
      [false, 1, 2 ** -101, true],
    ] as const)
      for (const trans of [false, true]) {
        const [m, n] = isRow ? [height + 2, 3] : [3, width + 2];
        // Ones everywhere but in one line, or at its last place.
        const [extent, isAlong] = isRow ? [m, !trans] : [n, trans];
        const first = isRow ? 0 : m * k;
        let drawn = 0;
        const draw = () => {
          const at = drawn++ - first;
          if (at < 0 || at >= extent * k) return 1;
          const [of, p] = isAlong ? [Math.floor(at / k), at % k] : [at % extent, Math.floor(at / extent)];
          return of === line && (whole || p === k - 1) ? value : 1;
        };
        const plain = checkResults(
          await prepare(products(), { m, n, k, transA: trans, transB: trans }, draw),
        );
        const isSecond = line >= (isRow ? height : width);
        const expected = Array.from(
          { length: m * n },
          (_, i) => (isRow ? Math.floor(i / n) >= height : i % n >= width) === isSecond,
        );
        assert.deepEqual(plain, expected, `${isRow ? "row" : "column"} ${line} with ${value}`);
      }
  });

  it("do not take zeros for small numbers, nor lines of nothing else for wide ones", async () => {
    const next = random(3);
    const draw = () => (next() < 0.5 ? 0 : 1 + next());
    assert.notInclude(checkResults(await prepare(products(), { m: 8, n: 9, k: 20 }, draw)), true);
    assert.notInclude(checkResults(await prepare(products(), { m: 8, n: 9, k: 20 }, () => 0)), true);
  });

  it("stay within the bound at the ends of what is split", async () => {
    for (const k of [16, 17, 64, 256]) {
      const next = random(k);
      const least = 2 ** -octavesFor(k);
      // The smallest numbers of one operand meet the smallest of the other, and nothing covers them.
      let drawn = 0;
      const draw = () => {
        const p = drawn++ % k;
        return p === 0 ? 1 : least * (1 + next());
      };
      const prepared = await prepare(products(), { m: 4, n: 4, k, transB: true }, draw);
      assert.notInclude(checkResults(prepared, 0.34), true, `k = ${k}`);
    }
  });

  it("multiply parts, scale, and leave what is wide to the plain product", async () => {
    const { features } = await new Promise<KernelContext>((resolve) =>
      products().driver.withContext(resolve),
    );
    // The texts of the second tile differ by numbers only.
    for (const [tile, plain] of [
      [{ rows: 64, columns: 64, depth: 64, subgroupRows: 32, subgroupColumns: 32 }, productTiles.medium],
      [{ rows: 64, columns: 32, depth: 32, subgroupRows: 32, subgroupColumns: 32 }, productTiles.small],
    ] as const)
      for (const { alpha = 1, beta = 0, bias, activation, at, ...sizes } of (
        [
          { m: 64, n: 64, k: 64 },
          { m: 67, n: 130, k: 33, transB: true },
          { m: 5, n: 68, k: 100, transA: true, alpha: 0.5, beta: -1 },
          { m: 70, n: 65, k: 70, batch: 2, broadcastB: true, beta: 2, bias: true },
          { m: 40, n: 72, k: 130, batch: 2, transB: true, alpha: 2, bias: true, activation: "silu" as const },
          // A row and a column are wide; what one product wrote would be added by the other.
          { m: 70, n: 132, k: 40, beta: 1, at: [3 * 40 + 5, 70 * 40 + 7 * 132 + 70] },
        ] as (Sizes & Partial<GemmProblem<DeviceMemory>> & { at?: number[] })[]
      ).filter((_, i) => tile.columns === 64 || i % 2 > 0)) {
        const { m, n, k } = sizes;
        const { transA = false, transB = false, batch = 1 } = sizes;
        const [lda, ldb] = [transA ? m : k, transB ? k : n];
        const strideB = sizes.broadcastB ? 0 : n * k;
        const draw = spread(20, m + k, 40);
        let drawn = 0;
        const values = (length: number) =>
          Float32Array.from({ length }, () => draw() * (at?.includes(drawn++) ? 2 ** -70 : 1));
        const a = values(batch * m * k);
        const b = values((strideB === 0 ? 1 : batch) * n * k);
        const c = values(batch * m * n);
        const biases = bias ? values(n) : undefined;
        const regions = [a, b, c, ...(biases ? [biases] : [])].map((x) => products().place(x, "f32"));
        const problem: GemmProblem<DeviceMemory> = {
          ...{ dtype: "f32", m, n, k, alpha, beta, transA, transB, lda, ldb, ldc: n, batch },
          ...{ strideA: m * k, strideB, strideC: m * n, a: regions[0]!, b: regions[1]!, c: regions[2]! },
          ...{ bias: regions[3], activation },
        };
        const form = {
          ...({ target: "matrix", readsC: false, dtype: "f32" } as const),
          ...(bias ? { bias: true } : {}),
          ...(activation ? { activation } : {}),
          ...(n % 4 === 0 ? { vectorC: true, overwritesC: beta === 0 } : {}),
        };
        const expected: Expected[] = [];
        for (let matrix = 0; matrix < batch; matrix++)
          for (let i = 0; i < m; i++)
            for (let j = 0; j < n; j++) {
              let [sum, magnitude] = [0, 0];
              for (let p = 0; p < k; p++) {
                const x = a[matrix * m * k + (transA ? p * m + i : i * k + p)]!;
                const y = b[matrix * strideB + (transB ? j * k + p : p * n + j)]!;
                sum += x * y;
                magnitude += Math.abs(x * y);
              }
              const index = (matrix * m + i) * n + j;
              const old = beta === 0 ? 0 : beta * c[index]!;
              const added = biases?.[j] ?? 0;
              const bound = gamma(k + 4) * (Math.abs(alpha) * magnitude + Math.abs(old) + Math.abs(added));
              expected.push(finishedSum(index, alpha * sum + old + added, bound, "f32", activation));
            }
        const shape = { vectorA: lda % 4 === 0, vectorB: ldb % 4 === 0 } as GemmShape;
        const strides = { m, n, alpha, beta, c_pitch: n, c_step: m * n };
        const result = { c: regions[2]!, ...(biases ? { bias: regions[3]! } : {}) };
        const run = () =>
          products().driver.withContext((context) =>
            enqueueSplit(
              {
                ...{ features, copy: context.copy.bind(context), fill: context.fill.bind(context) },
                scratch: (bytes) => {
                  const region = context.scratch(bytes);
                  context.fill(region, 0xff);
                  return region;
                },
                dispatch: (program, ...rest) => context.dispatch(withoutMatrixUnits(program), ...rest),
              },
              problem,
              shape,
              { ...row!, tile, plain },
              form,
              result,
              strides,
            ),
          );
        await products().check(regions[2]!, "f32", expected, JSON.stringify({ ...sizes, tile }), run);
        products().free(...regions);
      }
  });

  it("are valid WGSL in every form", async () => {
    const gpu = create([
      "backend=null",
      "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
    ]);
    const features = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"] as GPUFeatureName[];
    const adapter = (await gpu.requestAdapter())!;
    const device = await adapter.requestDevice({ requiredFeatures: features });
    const form = { target: "matrix", readsC: false, dtype: "f32" } as const;
    for (const { tile } of rows)
      for (const one of [
        form,
        { ...form, vectorC: true, overwritesC: true },
        { ...form, vectorC: true, overwritesC: false, bias: true, activation: "gelu" } as const,
      ]) {
        const { name, source } = splitProgram(tile, one);
        const { messages } = await device.createShaderModule({ code: source }).getCompilationInfo();
        const errors = messages.filter(({ type }) => type === "error");
        assert.deepEqual(
          errors.map(({ message }) => message),
          [],
          name,
        );
      }
    device.destroy();
  });
});
