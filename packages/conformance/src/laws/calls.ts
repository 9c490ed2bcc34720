import {
  type ComputeBackend,
  dtypeBytes,
  encodeFloat16,
  type FloatType,
  floatTypes,
  type Operand,
  type OperationName,
  operationNames,
} from "@backplane/core";

/**
 * One small valid call of an operation, for laws that bind every operation alike. A new operation
 * needs an entry here, and those laws hold for it too.
 */
export interface SmallCall {
  readonly operation: OperationName;
  /** Elements of each operand, contiguous. */
  readonly operands: Readonly<Record<string, number>>;
  readonly output: string;
  /** All arguments but the operands and the element type. */
  readonly rest: Readonly<Record<string, unknown>>;
  /** Inputs over which the output may be written exactly. */
  readonly inPlace: readonly string[];
  /** Changes to the arguments that must be refused as `INVALID_ARGUMENT`, unknown names among them. */
  readonly malformed: readonly Readonly<Record<string, unknown>>[];
  /** Changes after which there is nothing to compute, and nothing may be written. */
  readonly nothing: readonly Readonly<Record<string, unknown>>[];
  /** Changes after which the operand named reaches past its end. */
  readonly tooLarge: readonly (readonly [operand: string, change: Readonly<Record<string, unknown>>])[];
}

const badSizes = (name: string) => [-1, 1.5, Number.NaN, 2 ** 53, "3"].map((value) => ({ [name]: value }));

const badGemm = [
  ...["m", "n", "k"].flatMap(badSizes),
  ...[{ lda: 4 }, { ldb: 3 }, { ldc: 3 }, { lda: 2, transA: true }, { ldb: 4, transB: true }],
  ...[{ lda: -5 }, { ldb: 4.5 }, { ldc: Number.NaN }],
  ...[{ alpha: Number.NaN }, { beta: Number.POSITIVE_INFINITY }, { alpha: "1" }],
  ...[{ transA: 1 }, { transB: "no" }, { transposeB: true }],
];

export const smallCalls: Readonly<Record<OperationName, SmallCall>> = {
  gemm: {
    operation: "gemm",
    operands: { a: 15, b: 20, c: 12 },
    output: "c",
    rest: { m: 3, n: 4, k: 5 },
    inPlace: [],
    malformed: [...badGemm, { batch: 2 }],
    nothing: [{ m: 0 }, { n: 0 }],
    tooLarge: [
      ["a", { lda: 1000 }],
      ["b", { ldb: 1000 }],
      ["c", { ldc: 1000 }],
    ],
  },
  batchedGemm: {
    operation: "batchedGemm",
    operands: { a: 30, b: 40, c: 24 },
    output: "c",
    rest: { batch: 2, m: 3, n: 4, k: 5 },
    inPlace: [],
    malformed: [
      ...badGemm,
      ...badSizes("batch"),
      ...[{ strideA: -1 }, { strideB: 0.5 }, { strideC: 0 }, { strideC: 11 }, { strideC: 4 }],
    ],
    nothing: [{ batch: 0 }, { m: 0 }, { n: 0 }],
    tooLarge: [
      ["a", { strideA: 1000 }],
      ["b", { strideB: 1000 }],
      ["c", { strideC: 1000 }],
    ],
  },
  conv2d: {
    operation: "conv2d",
    operands: { input: 40, filter: 24, bias: 3, output: 27 },
    output: "output",
    rest: { inputShape: [1, 2, 4, 5], filterShape: [3, 2, 2, 2], stride: [1, 2], padding: [0, 1, 0, 0] },
    inPlace: [],
    malformed: [
      ...[{ inputShape: [1, 2, 4] }, { inputShape: [1, 2, -4, 5] }, { inputShape: [1, 2, 4, 5.5] }],
      ...[{ filterShape: [3, 1, 2, 2] }, { filterShape: [3, 2, 0, 2] }, { filterShape: [3, 2, 5, 2] }],
      ...[{ outputShape: [1, 3, 3, 2] }, { stride: [0, 1] }, { stride: [1] }, { padding: [0, 0, 0, -1] }],
      ...[{ dilation: [1, 0] }, { dilation: [4, 1] }, { groups: 2 }, { groups: 0 }, { groups: 1.5 }],
      { strides: [1, 1] },
      // Coordinates that kernels could not add in 32 bits, and that are not exact as numbers.
      ...[{ padding: [2 ** 30, 0, 0, 0] }, { padding: [0, 2 ** 53 - 1, 0, 2 ** 53 - 1] }],
    ],
    nothing: [{ inputShape: [0, 2, 4, 5] }, { filterShape: [0, 2, 2, 2] }],
    tooLarge: [
      ["input", { inputShape: [1000, 2, 4, 5] }],
      ["filter", { filterShape: [1000, 2, 2, 2] }],
      ["output", { padding: [1000, 1, 0, 0] }],
    ],
  },
  attention: {
    operation: "attention",
    operands: { q: 24, k: 16, v: 16, out: 24 },
    output: "out",
    rest: { batch: 1, heads: 2, kvHeads: 1, queryLength: 3, keyLength: 4, headSize: 4 },
    inPlace: [],
    malformed: [
      ...["batch", "heads", "kvHeads", "queryLength", "keyLength", "headSize"].flatMap(badSizes),
      ...[
        { kvHeads: 3 },
        { kvHeads: 0 },
        { scale: Number.NaN },
        { causal: "diagonal" },
        { causal: 1 },
        { mask: 0 },
      ],
    ],
    nothing: [{ batch: 0 }, { heads: 0 }, { queryLength: 0 }, { headSize: 0 }],
    tooLarge: [
      ["q", { queryLength: 1000 }],
      ["k", { keyLength: 1000 }],
    ],
  },
  reduce: {
    operation: "reduce",
    operands: { input: 12, output: 3 },
    output: "output",
    rest: { kind: "sum", shape: [3, 4], axes: [1] },
    inPlace: [],
    malformed: [
      ...[{ kind: "median" }, { kind: undefined }, { shape: [3, -4] }, { shape: [3, 4.5] }, { shape: 12 }],
      ...[{ axes: [2] }, { axes: [-3] }, { axes: [1, 1] }, { axes: [1, -1] }, { axes: [0.5] }, { axes: 1 }],
      ...[{ axes: [-1n] }, { axes: [null] }, { axis: 1 }],
    ],
    nothing: [{ shape: [0, 4] }, { shape: [0, 0], axes: [1] }],
    tooLarge: [
      ["input", { shape: [3, 1000] }],
      ["output", { shape: [4, 3] }],
    ],
  },
  unary: {
    operation: "unary",
    operands: { input: 7, output: 7 },
    output: "output",
    rest: { kind: "neg", n: 7 },
    inPlace: ["input"],
    malformed: [...badSizes("n"), { kind: "twice" }, { kind: undefined }, { alpha: 2 }],
    nothing: [{ n: 0 }],
    tooLarge: [["input", { n: 1000 }]],
  },
  binary: {
    operation: "binary",
    operands: { a: 7, b: 7, output: 7 },
    output: "output",
    rest: { kind: "add", n: 7 },
    inPlace: ["a", "b"],
    malformed: [
      ...badSizes("n"),
      ...[{ kind: "atan2" }, { n: undefined }, { shapeA: [7], shapeB: [7] }, { outputShape: [6] }],
      ...[
        { n: undefined, shapeA: [7], shapeB: [2] },
        { n: undefined, shapeA: [7], shapeB: [-7] },
      ],
      ...[{ a: { scalar: 1 }, b: { scalar: 2 } }, { b: { scalar: Number.NaN } }, { shape: [7] }],
    ],
    nothing: [{ n: 0 }, { n: undefined, shapeA: [0, 7], shapeB: [7] }],
    tooLarge: [["output", { n: undefined, shapeA: [7, 1], shapeB: [7] }]],
  },
};

/** Every operation and element type that a backend supports in its small call. */
export function supportedCalls(
  backend: ComputeBackend,
): { readonly call: SmallCall; readonly dtype: FloatType }[] {
  return operationNames.flatMap((operation) => {
    const call = smallCalls[operation];
    const kind = call.rest.kind as string | undefined;
    return floatTypes
      .filter((dtype) => backend.supports(operation, { dtype, kind }))
      .map((dtype) => ({ call, dtype }));
  });
}

/** Makes the call, with changes to its arguments. */
export function invoke(
  backend: ComputeBackend,
  call: SmallCall,
  dtype: FloatType,
  operands: Readonly<Record<string, Operand>>,
  change: Readonly<Record<string, unknown>> = {},
): void {
  const method = backend[call.operation].bind(backend) as (args: unknown) => void;
  method({ dtype, ...call.rest, ...operands, ...change });
}

/** Small whole numbers for the i-th operand, on which all but attention is exact; as stored. */
export function operandBytes(count: number, index: number, dtype: FloatType): Uint8Array<ArrayBuffer> {
  const values = Float32Array.from({ length: count }, (_, i) => ((i * 7 + index * 3) % 9) - 4 || 1);
  return new Uint8Array((dtype === "f32" ? values : encodeFloat16(values)).buffer);
}

/** The places of operands within one allocation. */
export interface Layout {
  readonly bytes: number;
  readonly offsets: Readonly<Record<string, number>>;
}

/** All operands of a call one after another in one allocation, each `gap` elements after the last. */
export function layOut(call: SmallCall, dtype: FloatType, gap: number): Layout {
  const offsets: Record<string, number> = {};
  let elements = gap;
  for (const [name, count] of Object.entries(call.operands)) {
    offsets[name] = elements * dtypeBytes[dtype];
    elements += count + gap;
  }
  return { bytes: elements * dtypeBytes[dtype], offsets };
}
