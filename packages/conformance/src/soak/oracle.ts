import {
  arithmeticKinds,
  type DriverKernels,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type Numerics,
  type Region,
} from "@backplane/core";
import { smallestNormal } from "../data.js";
import { attention } from "../reference/attention.js";
import { conv2d } from "../reference/conv2d.js";
import { binaryFunctions, unaryFunctions } from "../reference/elementwise.js";
import { gemm } from "../reference/gemm.js";
import { reduce } from "../reference/reduce.js";
import {
  load,
  loadBroadcast,
  ReferenceDriver,
  type ReferenceKernels,
  type ReferenceMemory,
} from "../reference.js";
import {
  attentionTolerance,
  attentionWeights,
  binaryTolerance,
  productSum,
  reduction,
  unaryTolerance,
} from "../tolerance.js";

type Place = Region<ReferenceMemory>;

/** Receives each element that an operation should write: its index, its value, and its tolerance. */
type Judge = (index: number, value: number, tolerance: number) => void;

/** The outcome of the check of one result. */
export interface Verdict {
  /** Elements compared. */
  readonly checked: number;
  /** The first element that is wrong; undefined if none is. */
  readonly complaint: string | undefined;
  /** True if inputs had subnormal numbers, which the backend may read as zeros: nothing was compared. */
  readonly skipped: boolean;
}

/**
 * A backend that computes nothing new. Each operation receives the bytes that another backend computed,
 * compares them with the reference, and stores them. So the next operations start from the bytes that the
 * other backend really held, and no error counts twice.
 */
export class Oracle extends ReferenceDriver {
  override readonly name = "oracle";
  override readonly kernels: DriverKernels<ReferenceMemory> = this.#kernels();
  /** The output of the next operation as the other backend had it. */
  answer: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  verdict: Verdict = { checked: 0, complaint: undefined, skipped: false };
  readonly #numerics: Numerics;

  /** `numerics` are those that the other backend declares. */
  constructor(numerics: Numerics) {
    super();
    this.#numerics = numerics;
  }

  #kernels(): ReferenceKernels {
    const product = {
      supports: [{ dtype: floatTypes }],
      run: (problem: Parameters<NonNullable<DriverKernels<ReferenceMemory>["gemm"]>["run"]>[0]) => {
        const { dtype, a, b, c, k, alpha, beta } = problem;
        const tolerance = productSum(k + 3, dtype, this.#numerics, alpha);
        const inputs = [...(k > 0 ? [a, b] : []), ...(beta !== 0 ? [c] : [])];
        this.#check(c, dtype, inputs, (judge) =>
          gemm(problem, load(a, dtype), load(b, dtype), load(c, dtype), (index, value, magnitude) =>
            judge(index, value, tolerance(value, magnitude)),
          ),
        );
      },
    };
    return {
      gemm: product,
      batchedGemm: product,
      conv2d: {
        supports: [{ dtype: floatTypes }],
        run: (problem) => {
          const { dtype, input, filter, bias, output, inChannels, groups, kernelHeight, kernelWidth } =
            problem;
          const terms = (kernelHeight * kernelWidth * inChannels) / groups;
          const tolerance = productSum(terms + 1, dtype, this.#numerics);
          const biases = bias && load(bias, dtype);
          this.#check(output, dtype, bias ? [input, filter, bias] : [input, filter], (judge) =>
            conv2d(problem, load(input, dtype), load(filter, dtype), biases, (index, value, magnitude) =>
              judge(index, value, tolerance(value, magnitude)),
            ),
          );
        },
      },
      attention: {
        supports: [{ dtype: floatTypes }],
        run: (problem) => {
          const { dtype, q, k, v, out, keyLength, headSize } = problem;
          const tolerance = attentionTolerance(keyLength, dtype, this.#numerics);
          this.#check(out, dtype, [q, k, v], (judge) =>
            attention(
              problem,
              load(q, dtype),
              load(k, dtype),
              load(v, dtype),
              (index, value, magnitude) => judge(index, value, tolerance(value, magnitude)),
              (row) => attentionWeights(row, headSize),
            ),
          );
        },
      },
      reduce: {
        supports: [{ dtype: floatTypes }],
        run: (problem) => {
          const { dtype, kind, input, output, reducedCount } = problem;
          const tolerance = reduction(kind, reducedCount, dtype, this.#numerics);
          this.#check(output, dtype, [input], (judge) =>
            reduce(problem, load(input, dtype), (index, value, magnitude) =>
              judge(index, value, tolerance(value, magnitude)),
            ),
          );
        },
      },
      unary: {
        supports: [{ dtype: floatTypes }],
        run: ({ kind, dtype, n, input, output }) => {
          const values = load(input, dtype);
          this.#check(output, dtype, [input], (judge) => {
            for (let i = 0; i < n; i++) {
              const y = unaryFunctions[kind](values[i]!);
              judge(i, y, unaryTolerance(kind, values[i]!, y, dtype, this.#numerics));
            }
          });
        },
      },
      binary: {
        supports: [{ dtype: floatTypes, kind: arithmeticKinds }],
        run: ({ kind, dtype, shape, n, a, b, output }) => {
          const [first, second] = [loadBroadcast(a, shape, dtype), loadBroadcast(b, shape, dtype)];
          const inputs = [a, b].flatMap((operand) => ("region" in operand ? [operand.region] : []));
          this.#check(output, dtype, inputs, (judge) => {
            for (let i = 0; i < n; i++) {
              const [x, z] = [first(i), second(i)];
              const y = binaryFunctions[kind](x, z);
              judge(i, y, binaryTolerance(kind, x, z, y, dtype, this.#numerics));
            }
          });
        },
      },
    };
  }

  /** Compares the result with that of a formula. Bytes that the formula does not name must be unchanged. */
  #check(output: Place, dtype: FloatType, inputs: readonly Place[], formula: (judge: Judge) => void): void {
    const { answer } = this;
    const { memory, byteOffset, byteLength } = output;
    const skipped =
      this.#numerics.subnormals !== "kept" && inputs.some((input) => hasSubnormals(input, dtype));
    let checked = 0;
    let complaint: string | undefined;
    if (!skipped) {
      const got = load({ memory: answer, byteOffset: 0, byteLength }, dtype);
      const isWritten = new Uint8Array(got.length);
      formula((index, value, tolerance) => {
        checked++;
        isWritten[index] = 1;
        if (!(Math.abs(got[index]! - value) <= tolerance))
          complaint ??= `element ${index} of ${got.length} is ${got[index]}, expected ${value} within ${tolerance}`;
      });
      const bytes = dtypeBytes[dtype];
      for (let i = 0; i < answer.length; i++)
        if (isWritten[Math.floor(i / bytes)] !== 1 && answer[i] !== memory[byteOffset + i])
          complaint ??= `byte ${i} of ${answer.length} changed, which is no part of the result`;
    }
    memory.set(answer, byteOffset);
    this.verdict = { checked, complaint, skipped };
  }
}

function hasSubnormals(input: Place, dtype: FloatType): boolean {
  return load(input, dtype).some((value) => value !== 0 && Math.abs(value) < smallestNormal[dtype]);
}
