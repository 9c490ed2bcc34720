import {
  type ComputeBackend,
  type DeviceHandle,
  type DeviceSlice,
  dtypeBytes,
  type FloatType,
  type MapNode,
  type Operand,
  type QuantizedBits,
} from "@backplane/core";

/** A product with a matrix of weights. */
export interface Product {
  /** Rows of the input and the output. */
  readonly count: number;
  /** [count, columns of the matrix] */
  readonly input: Operand;
  /** [count, rows of the matrix] */
  readonly output: Operand;
  /** The product is added to what the output has. Default: it takes its place. */
  readonly adds?: boolean;
}

/** Rows of a matrix of weights. */
export interface LookUp {
  readonly count: number;
  /** i32 */
  readonly indices: Operand;
  /** [count, columns of the matrix] */
  readonly output: Operand;
  /** Memory for as many elements, by way of which this may happen. */
  readonly through: Operand;
}

/** Weights on the device: `rows` x `columns`, W[j, p] being the weight of input p for output j. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  /** Enqueues output = input W^T, or what is added to it. Allocates nothing for one row, so that it can be recorded. */
  multiply(product: Product): void;
  /** Enqueues output[i] = row indices[i] of W. Allocates nothing, so that it can be recorded. */
  lookUp(lookUp: LookUp): void;
  /** The same weights, `count` rows from `first` on. */
  slice(first: number, count: number): Matrix;
}

/** Weights of the type in which the model computes. */
export class DenseMatrix implements Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: DeviceSlice;
  readonly #backend: ComputeBackend;
  readonly #dtype: FloatType;

  constructor(backend: ComputeBackend, dtype: FloatType, rows: number, columns: number, values: Operand) {
    this.#backend = backend;
    this.#dtype = dtype;
    this.rows = rows;
    this.columns = columns;
    this.values = sliceOf(values);
  }

  multiply({ count, input, output, adds = false }: Product): void {
    this.#backend.gemm({
      m: count,
      n: this.rows,
      k: this.columns,
      a: input,
      b: this.values,
      transB: true,
      c: output,
      beta: adds ? 1 : 0,
      dtype: this.#dtype,
    });
  }

  lookUp({ count, indices, output }: LookUp): void {
    this.#backend.gather({
      ...{ shape: [this.rows, this.columns], indexShape: [count, 1], dtype: this.#dtype },
      ...{ input: this.values, indices, output },
    });
  }

  slice(first: number, count: number): DenseMatrix {
    const values = moved(this.values, first * this.columns * dtypeBytes[this.#dtype]);
    return new DenseMatrix(this.#backend, this.#dtype, count, this.columns, values);
  }
}

/** Weights that share a scale, as in the formats Q8_0 and Q4_0. */
export const BLOCK = 32;

/** Weights of 4 or 8 bits in blocks of 32 with a scale of f16, as `fromGguf` gives them. */
export class BlockMatrix implements Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly bits: QuantizedBits;
  readonly stored: DeviceSlice;
  readonly scales: DeviceSlice;
  readonly #backend: ComputeBackend;
  readonly #dtype: FloatType;
  readonly #mayRoundInput: boolean;

  constructor(
    backend: ComputeBackend,
    dtype: FloatType,
    { rows, columns, bits, stored, scales, mayRoundInput = false }: BlockOptions,
  ) {
    this.#backend = backend;
    this.#dtype = dtype;
    this.#mayRoundInput = mayRoundInput;
    this.rows = rows;
    this.columns = columns;
    this.bits = bits;
    this.stored = sliceOf(stored);
    this.scales = sliceOf(scales);
  }

  multiply({ count, input, output, adds = false }: Product): void {
    const { rows, columns, bits } = this;
    this.#backend.quantizedGemm({
      m: count,
      n: rows,
      k: columns,
      bits,
      block: BLOCK,
      mayRoundA: this.#mayRoundInput,
      a: input,
      b: this.stored,
      scales: this.scales,
      c: output,
      beta: adds ? 1 : 0,
      scaleType: "f16",
      dtype: this.#dtype,
    });
  }

  lookUp({ count, indices, output, through }: LookUp): void {
    const { rows, bits } = this;
    const { storedBytes, blocks } = this.#rowSizes();
    // Numbers of 8 bits with a scale of f16 for each block take less than elements of 16 bits.
    const stored = through;
    const scales = moved(through, count * storedBytes);
    const indexShape = [count, 1];
    this.#backend.gather({
      ...{ shape: [rows, storedBytes], indexShape, dtype: "u8" },
      ...{ input: this.stored, indices, output: stored },
    });
    this.#backend.gather({
      ...{ shape: [rows, blocks], indexShape, dtype: "f16" },
      ...{ input: this.scales, indices, output: scales },
    });
    widen(this.#backend, this.#dtype, count * blocks, { bits, stored, scales }, output);
  }

  slice(first: number, count: number): BlockMatrix {
    const { columns, bits } = this;
    const { storedBytes, blocks } = this.#rowSizes();
    return new BlockMatrix(this.#backend, this.#dtype, {
      ...{ rows: count, columns, bits, mayRoundInput: this.#mayRoundInput },
      stored: moved(this.stored, first * storedBytes),
      scales: moved(this.scales, first * blocks * 2),
    });
  }

  /** Enqueues output = W. */
  widen(output: Operand): void {
    widen(this.#backend, this.#dtype, this.rows * this.#rowSizes().blocks, this, output);
  }

  #rowSizes(): { readonly storedBytes: number; readonly blocks: number } {
    return { storedBytes: (this.columns * this.bits) / 8, blocks: this.columns / BLOCK };
  }
}

interface BlockOptions extends BlockOperands {
  readonly rows: number;
  readonly columns: number;
  /** Whether a backend may round what is multiplied: `mayRoundA` of `quantizedGemm`. Default: false. */
  readonly mayRoundInput?: boolean;
}

interface BlockOperands {
  readonly bits: QuantizedBits;
  readonly stored: Operand;
  /** f16 */
  readonly scales: Operand;
}

/**
 * Places of a block as axes. Weights of 4 bits lie two to a byte, the low half first: the last axis counts halves.
 */
const blockAxes: Readonly<
  Record<QuantizedBits, { readonly weights: readonly number[]; readonly bytes: readonly number[] }>
> = {
  4: { weights: [BLOCK / 2, 2], bytes: [BLOCK / 2, 1] },
  8: { weights: [BLOCK], bytes: [BLOCK] },
};

/** (stored number - the one in the middle) * scale */
const widening: Readonly<Record<QuantizedBits, readonly MapNode[]>> = {
  4: [
    { input: 0 },
    { convert: "u32", x: 0 },
    { index: 2 },
    { convert: "u32", x: 2 },
    { constant: 4, type: "u32" },
    { binary: "mul", a: 3, b: 4 },
    { binary: "shr", a: 1, b: 5 },
    { constant: 15, type: "u32" },
    { binary: "and", a: 6, b: 7 },
    { convert: "f32", x: 8 },
    { constant: 8 },
    { binary: "sub", a: 9, b: 10 },
    { input: 1 },
    { binary: "mul", a: 11, b: 12 },
  ],
  8: [
    { input: 0 },
    { convert: "f32", x: 0 },
    { constant: 128 },
    { binary: "sub", a: 1, b: 2 },
    { input: 1 },
    { binary: "mul", a: 3, b: 4 },
  ],
};

function widen(
  backend: ComputeBackend,
  dtype: FloatType,
  blocks: number,
  { bits, stored, scales }: BlockOperands,
  output: Operand,
): void {
  const { weights, bytes } = blockAxes[bits];
  backend.map({
    ...{ shape: [blocks, ...weights], nodes: widening[bits], results: [-1], dtype },
    inputs: [stored, scales],
    inputShapes: [
      [blocks, ...bytes],
      [blocks, ...bytes.map(() => 1)],
    ],
    inputTypes: ["u8", "f16"],
    outputs: [output],
  });
}

/** A place so many bytes after another one. */
export function moved(operand: Operand, bytes: number): DeviceSlice {
  const { handle, byteOffset = 0 } = sliceOf(operand);
  return { handle, byteOffset: byteOffset + bytes };
}

export function sliceOf(operand: Operand): DeviceSlice {
  return typeof operand === "object" ? operand : { handle: operand as DeviceHandle, byteOffset: 0 };
}
