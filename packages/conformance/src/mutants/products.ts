import { dtypeBytes } from "@backplane/core";
import { gemm } from "../reference/gemm.js";
import { load, storeInto } from "../reference.js";
import {
  mapped,
  replaced,
  replacedProduct,
  tampered,
  tamperedProduct,
  throughEnd,
  truncate,
} from "./build.js";
import type { Mutant } from "./mutant.js";

/** Defects of gemm, batchedGemm and conv2d. */
export const productMutants: readonly Mutant[] = [
  {
    name: "ignores lda",
    description: "Reads A as if its rows were tightly packed.",
    killedBy: ["gemm f32: is exact on whole numbers", "batchedGemm f16: stays within the error bound"],
    create: () => tamperedProduct((p) => ({ ...p, lda: p.transA ? p.m : p.k })),
  },
  {
    name: "ignores ldc",
    description: "Writes C as if its rows were tightly packed, over what lies between them.",
    killedBy: [
      "gemm f32: touches nothing but the elements of C",
      "batchedGemm f32: touches nothing but the elements of C, not even between the matrices",
    ],
    create: () => tamperedProduct((p) => ({ ...p, ldc: p.n })),
  },
  {
    name: "ignores transB for square B",
    description: "A transpose that is only noticed where it changes the shape.",
    killedBy: ["gemm f32: stays within the error bound", "gemm f32: gives (A B)^T = B^T A^T"],
    create: () => tamperedProduct((p) => ({ ...p, transB: p.transB && p.n !== p.k })),
  },
  {
    name: "drops the last k",
    description: "Leaves out the rest of k after whole vectors of four.",
    killedBy: ["gemm f32: is exact on whole numbers", "gemm f32: stays within the error bound"],
    create: () => tamperedProduct((p) => ({ ...p, k: p.k > 4 ? p.k - (p.k % 4) : p.k })),
  },
  {
    name: "forgets k beyond 2048",
    description: "One block of k too few; only long sums show it.",
    killedBy: ["gemm f32: stays within the error bound on larger shapes"],
    create: () => tamperedProduct((p) => ({ ...p, k: Math.min(p.k, 2048) })),
  },
  {
    name: "writes one element past the end",
    description: "The last store of a row of vectors is one element too wide.",
    killedBy: ["gemm f32: touches nothing but the elements of C"],
    create: () =>
      replaced("gemm", (p, run) => {
        run(p);
        const last = p.c.byteLength / dtypeBytes[p.dtype];
        storeInto(throughEnd(p.c, p.dtype), p.dtype)(last, 0, 0);
      }),
  },
  {
    name: "reads C where beta is 0",
    description: "Multiplies C by 0 instead of leaving it unread; NaN times 0 is NaN.",
    killedBy: ["gemm f32: is exact on whole numbers", "gemm f32: touches nothing but the elements of C"],
    create: () =>
      replacedProduct((p, run) => {
        const before = load(p.c, p.dtype);
        run(p);
        const store = storeInto(p.c, p.dtype);
        if (p.beta === 0)
          gemm(p, load(p.a, p.dtype), load(p.b, p.dtype), before, (i, y) => store(i, y + 0 * before[i]!, 0));
      }),
  },
  {
    name: "applies alpha to C as well",
    description: "alpha (A B + beta C).",
    killedBy: ["gemm f32: is exact on whole numbers"],
    create: () => tamperedProduct((p) => ({ ...p, beta: p.alpha * p.beta })),
  },
  {
    name: "rounds f32 inputs to TF32",
    description: "What tensor cores do with f32 by default; hidden by honest bounds at large k.",
    killedBy: ["gemm f32: does not round its inputs or partial sums to fewer bits"],
    create: () =>
      replacedProduct((p, run) => {
        if (p.dtype !== "f32") return run(p);
        const short = (value: number) => truncate(value, 10);
        run({ ...p, a: mapped(p.a, p.dtype, short), b: mapped(p.b, p.dtype, short) });
      }),
  },
  {
    name: "accumulates f16 products in f16",
    description: "The natural thing with f16 arithmetic; the contract wants f32 sums.",
    killedBy: [
      "gemm f16: does not round its inputs or partial sums to fewer bits",
      "gemm f16: stays within the error bound on larger shapes",
    ],
    create: () =>
      replacedProduct((p, run) => {
        if (p.dtype !== "f16" || p.beta !== 0 || p.k === 0) return run(p);
        // One term at a time, each sum rounded when it is stored.
        const { k } = p;
        const zero = mapped(p.c, p.dtype, () => 0);
        const [a, b] = [load(p.a, p.dtype), load(p.b, p.dtype)];
        const [stepA, stepB] = [p.transA ? p.lda : 1, p.transB ? 1 : p.ldb];
        const store = storeInto(zero, p.dtype);
        for (let i = 0; i < k; i++)
          gemm(
            { ...p, k: 1, beta: 1 },
            a.subarray(i * stepA),
            b.subarray(i * stepB),
            load(zero, p.dtype),
            store,
          );
        const sums = load(zero, p.dtype);
        const result = storeInto(p.c, p.dtype);
        gemm({ ...p, k: 0 }, a, b, sums, (i) => result(i, sums[i]!, 0));
      }),
  },
  {
    name: "ignores the batch stride of B",
    description: "Steps from one B to the next by their tight size, broadcast or not.",
    killedBy: [
      "batchedGemm f32: is exact on whole numbers",
      "batchedGemm f32: uses one A or B for the whole batch where its stride is 0",
      "batchedGemm f32: agrees with a loop of gemm",
    ],
    create: () => tampered("batchedGemm", (p) => ({ ...p, strideB: p.ldb * (p.transB ? p.n : p.k) })),
  },
  {
    name: "leaves out every batch but the first few",
    description: "A limit on the third dimension of a grid.",
    killedBy: ["batchedGemm f32: stays within the error bound on larger shapes"],
    create: () => tampered("batchedGemm", (p) => ({ ...p, batch: Math.min(p.batch, 64) })),
  },
  {
    name: "swaps padding at the top and at the left",
    description: "Invisible with symmetric padding.",
    killedBy: [
      "conv2d f32: takes padding as top, left, bottom, right",
      "conv2d f32: is exact on whole numbers",
    ],
    create: () => tampered("conv2d", (p) => ({ ...p, top: p.left, left: p.top })),
  },
  {
    name: "ignores dilation along x",
    description: "One of two dilations is taken for both.",
    killedBy: ["conv2d f32: is exact on whole numbers"],
    create: () => tampered("conv2d", (p) => ({ ...p, dilationX: p.dilationY })),
  },
  {
    name: "flips the filter",
    description: "Convolution as mathematics has it, not as networks mean it.",
    killedBy: ["conv2d f32: gives what a matrix product of unfolded windows gives"],
    create: () =>
      replaced("conv2d", (p, run) => {
        const values = load(p.filter, p.dtype);
        const taps = p.kernelHeight * p.kernelWidth;
        const turned = (_: number, i: number) => values[i - (i % taps) + (taps - 1 - (i % taps))]!;
        run({ ...p, filter: mapped(p.filter, p.dtype, turned) });
      }),
  },
  {
    name: "forgets the bias of large images",
    description: "A second kernel, chosen by size, that lacks a feature of the first.",
    killedBy: ["conv2d f32: stays within the error bound on larger shapes"],
    create: () =>
      tampered("conv2d", (p) => ({ ...p, bias: p.outHeight * p.outWidth > 1000 ? undefined : p.bias })),
  },
];
