import type { BatchedGemmArguments, GemmArguments } from "@backplane/core";
import type { Call } from "../checks.js";
import { numbers, type Plan } from "../plan.js";

/** A stored matrix, or one for each of a batch. */
interface Matrix {
  /** Elements from one row to the next, and from one matrix to the next. */
  readonly row: number;
  readonly step: number;
  /** Elements from the first to just after the last, of one matrix and of all. */
  readonly extent: number;
  readonly total: number;
}

type Batched = Pick<BatchedGemmArguments, "batch" | "strideA" | "strideB" | "strideC">;

/** gemm is a batch of one. */
export function planGemm(call: Call, args: GemmArguments, batched: Batched): Plan | undefined {
  const [m, n, k] = [call.whole("m", args.m), call.whole("n", args.n), call.whole("k", args.k)];
  const batch = call.whole("batch", batched.batch);
  const alpha = call.factor("alpha", args.alpha ?? 1);
  const beta = call.factor("beta", args.beta ?? 0);
  const transA = call.flag("transA", args.transA ?? false);
  const transB = call.flag("transB", args.transB ?? false);

  const matrix = (name: string, rows: number, columns: number, ld?: number, stride?: number): Matrix => {
    const row = call.whole(`ld${name}`, ld ?? columns);
    if (row < columns) call.refuse(`ld${name}`, row, `at least the ${columns} columns`);
    const step = call.whole(`stride${name.toUpperCase()}`, stride ?? rows * row);
    const extent = rows === 0 || columns === 0 ? 0 : (rows - 1) * row + columns;
    const total = extent === 0 || batch === 0 ? 0 : call.whole(name, (batch - 1) * step + extent);
    return { row, step, extent, total };
  };
  const [a, b] = [
    matrix("a", transA ? k : m, transA ? m : k, args.lda, batched.strideA),
    matrix("b", transB ? n : k, transB ? k : n, args.ldb, batched.strideB),
  ];
  const c = matrix("c", m, n, args.ldc, batched.strideC);
  const sideBySide = c.step >= n && (batch - 1) * c.step + n <= c.row;
  if (batch > 1 && c.total > 0 && c.step < c.extent && !sideBySide)
    call.refuse("strideC", c.step, `at least ${c.extent}, or side by side within rows of ${c.row}`);

  const inner = alpha === 0 || c.total === 0 ? 0 : k;
  const [placeA, placeB, placeC] = [
    call.place("a", args.a, inner === 0 ? 0 : a.total, 4),
    call.place("b", args.b, inner === 0 ? 0 : b.total, 4),
    call.place("c", args.c, c.total, 4),
  ];
  call.apart(["c", placeC], ["a", placeA], "never");
  call.apart(["c", placeC], ["b", placeB], "never");
  if (c.total === 0) return undefined;

  // Steps along the rows of op(A), and down the columns of op(B).
  const [rowA, alongA] = transA ? [1, a.row] : [a.row, 1];
  const [columnB, downB] = transB ? [b.row, 1] : [1, b.row];
  return {
    output: placeC,
    inputs: inner === 0 ? [] : [placeA, placeB],
    compute(output, [bytesA, bytesB]) {
      const nothing = new Float32Array(0);
      const matrixA = bytesA === undefined ? nothing : numbers(bytesA, placeA);
      const matrixB = bytesB === undefined ? nothing : numbers(bytesB, placeB);
      const matrixC = numbers(output, placeC);
      for (let i = 0; i < batch; i++)
        for (let row = 0; row < m; row++)
          for (let column = 0; column < n; column++) {
            let sum = 0;
            let atA = i * a.step + row * rowA;
            let atB = i * b.step + column * columnB;
            for (let left = inner; left > 0; left--) {
              sum += matrixA[atA]! * matrixB[atB]!;
              atA += alongA;
              atB += downB;
            }
            const at = i * c.step + row * c.row + column;
            const scaled = inner === 0 ? 0 : alpha * sum;
            matrixC[at] = beta === 0 ? scaled : scaled + beta * matrixC[at]!;
          }
    },
  };
}
