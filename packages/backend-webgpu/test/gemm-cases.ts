import type { Activation, FloatType, GemmProblem } from "@backplane/core";
import type { DeviceFeatures } from "#src/device/features.js";
import { runGemm } from "#src/kernels/gemm/index.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { type Expected, finishedSum, gamma, type ProductDevice, signed } from "./products.js";

/** One product to check. */
export interface GemmCase {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly dtype?: FloatType;
  readonly transA?: boolean;
  readonly transB?: boolean;
  readonly batch?: number;
  readonly alpha?: number;
  readonly beta?: number;
  /** Elements beyond the tight leading dimensions. */
  readonly padA?: number;
  readonly padB?: number;
  readonly padC?: number;
  /** Leading dimensions and strides are multiples of this. */
  readonly multiple?: number;
  /** Elements in front of every operand. */
  readonly offset?: number;
  /** Elements between matrices of a batch. */
  readonly gap?: number;
  /** One A for the whole batch. */
  readonly broadcastA?: boolean;
  /** The results lie side by side. */
  readonly sideBySide?: boolean;
  /** Whole numbers, so that every order of summation gives the same bits. */
  readonly whole?: boolean;
  readonly bias?: boolean;
  readonly activation?: Activation;
}

/** Fills the elements of stored matrices with numbers and leaves NaN in the gaps. */
function stored(
  {
    rows,
    columns,
    ld,
    batch,
    step,
  }: { rows: number; columns: number; ld: number; batch: number; step: number },
  values: () => number,
): Float32Array {
  const all = new Float32Array(Math.max(0, (batch - 1) * step + (rows - 1) * ld + columns)).fill(Number.NaN);
  for (let i = 0; i < batch; i++)
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) all[i * step + row * ld + column] = values();
  return all;
}

/** Computes one product with a kernel and compares every element, and all bytes around them. */
export async function checkGemm(
  device: ProductDevice,
  shape: GemmCase,
  forced?: string,
  features?: (real: DeviceFeatures) => DeviceFeatures,
): Promise<void> {
  const { m, n, k, dtype = "f32", transA = false, transB = false, batch = 1 } = shape;
  const { alpha = 1, beta = 0, padA = 0, padB = 0, padC = 0, offset = 0, gap = 0 } = shape;
  const [rowsA, columnsA] = transA ? [k, m] : [m, k];
  const [rowsB, columnsB] = transB ? [n, k] : [k, n];
  const padded = (elements: number) => Math.ceil(elements / (shape.multiple ?? 1)) * (shape.multiple ?? 1);
  const [lda, ldb] = [padded(columnsA + padA), padded(columnsB + padB)];
  const ldc = padded((shape.sideBySide ? batch * (n + gap) : n) + padC);
  const strideA = shape.broadcastA ? 0 : padded(rowsA * lda + gap);
  const strideB = padded(rowsB * ldb + gap);
  const strideC = shape.sideBySide ? n + gap : padded(m * ldc + gap);

  const numbers = signed(4096, dtype, m * 7 + n * 3 + k);
  let drawn = 0;
  const draw = () => {
    const value = numbers[drawn++ % 4096]!;
    return shape.whole ? Math.round(value * 4) : value;
  };
  const a = stored({ rows: rowsA, columns: columnsA, ld: lda, batch, step: strideA }, draw);
  const b = stored({ rows: rowsB, columns: columnsB, ld: ldb, batch, step: strideB }, draw);
  const c = stored(
    { rows: m, columns: n, ld: ldc, batch, step: strideC },
    beta === 0 ? () => Number.NaN : draw,
  );

  const bias = shape.bias ? Float32Array.from({ length: n }, draw) : undefined;

  const expected: Expected[] = [];
  for (let i = 0; i < batch; i++)
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        let sum = 0;
        let magnitude = 0;
        for (let p = 0; p < k; p++) {
          const x = a[i * strideA + (transA ? p * lda + row : row * lda + p)]!;
          const y = b[i * strideB + (transB ? column * ldb + p : p * ldb + column)]!;
          sum += x * y;
          magnitude += Math.abs(x * y);
        }
        const index = i * strideC + row * ldc + column;
        const old = beta === 0 ? 0 : beta * c[index]!;
        const added = bias?.[column] ?? 0;
        const value = alpha * sum + old + added;
        const scale = Math.abs(alpha) * magnitude + Math.abs(old) + Math.abs(added);
        const end = finishedSum(index, value, gamma(k + 4) * scale, dtype, shape.activation);
        expected.push(shape.whole ? { ...end, tolerance: 0 } : end);
      }

  const regions = {
    a: device.place(a, dtype, offset),
    b: device.place(b, dtype, offset),
    c: device.place(c, dtype, offset),
    bias: bias && device.place(bias, dtype, offset + 1),
  };
  const problem: GemmProblem<DeviceMemory> = {
    ...{ dtype, m, n, k, alpha, beta, transA, transB, lda, ldb, ldc, batch, strideA, strideB, strideC },
    ...{ ...regions, activation: shape.activation },
  };
  await device.check(regions.c, dtype, expected, JSON.stringify({ ...shape, forced }), () =>
    device.run((context) => runGemm(context, problem, forced), features),
  );
  device.free(regions.a, regions.b, regions.c, ...(regions.bias ? [regions.bias] : []));
}

export const transposes: readonly { readonly transA: boolean; readonly transB: boolean }[] = [
  false,
  true,
].flatMap((transA) => [false, true].map((transB) => ({ transA, transB })));

/** The different numbers that the product of two tight matrices of f32 has. */
export async function distinctResults(
  device: ProductDevice,
  [m, n, k]: readonly [m: number, n: number, k: number],
  a: (row: number, depth: number) => number,
  b: (depth: number, column: number) => number,
  forced: string,
): Promise<readonly number[]> {
  const place = (rows: number, columns: number, value: (row: number, column: number) => number) =>
    device.place(
      Float32Array.from({ length: rows * columns }, (_, i) => value(Math.floor(i / columns), i % columns)),
      "f32",
    );
  const regions = { a: place(m, k, a), b: place(k, n, b), c: place(m, n, () => 0) };
  const problem: GemmProblem<DeviceMemory> = {
    ...{ dtype: "f32", m, n, k, alpha: 1, beta: 0, transA: false, transB: false, lda: k, ldb: n, ldc: n },
    ...{ batch: 1, strideA: m * k, strideB: k * n, strideC: m * n },
    ...{ ...regions, bias: undefined, activation: undefined },
  };
  device.run((context) => runGemm(context, problem, forced));
  const results = new Float32Array((await device.bytes(regions.c)).buffer, 0, m * n);
  device.free(regions.a, regions.b, regions.c);
  return [...new Set(results)];
}
