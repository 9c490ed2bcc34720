import {
  type Accuracy,
  type Activation,
  type ArithmeticKind,
  arithmeticKinds,
  type BackendDriver,
  type BinaryInput,
  type BinaryProblem,
  type ComputeBackend,
  createBackend,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  decodeFloat16,
  dtypeBytes,
  type FloatType,
  float16ToBits,
  floatTypes,
  inexactBinaryKinds,
  inexactUnaryKinds,
  type Kernel,
  type OperationName,
  type OperationProblems,
  type ReduceProblem,
  type Region,
} from "@backplane/core";
import { attention } from "./reference/attention.js";
import { conv2d } from "./reference/conv2d.js";
import { binaryFunctions, unaryFunctions } from "./reference/elementwise.js";
import { type Emit, gemm } from "./reference/gemm.js";
import { offsets, reduce } from "./reference/reduce.js";

/**
 * The smallest complete backend. It computes every result in double precision with plain loops and rounds
 * once when it stores it. It is the yardstick of the suite, the base of the mutants, and an example of how to
 * write a backend: apart from the formulas, a driver needs no more than this file.
 */
export function createReferenceBackend(): ComputeBackend {
  return createBackend(new ReferenceDriver());
}

/** Every function is accurate to half a unit: computed in double precision and rounded once. */
export const correctlyRounded: Accuracy = {
  unary: Object.fromEntries(inexactUnaryKinds.map((kind) => [kind, [{ units: 0.5 }]])),
  binary: Object.fromEntries(inexactBinaryKinds.map((kind) => [kind, 0.5])),
};

/** Makes a reference backend lose its device, for conformance tests. */
export function loseReferenceDevice(backend: ComputeBackend): void {
  (backend.native() as ReferenceDriver).lose();
}

/** The problems of all operations in the types and kinds that the reference has. */
export interface ReferenceProblems extends Omit<OperationProblems<ReferenceMemory>, "reduce" | "binary"> {
  readonly reduce: ReduceProblem<ReferenceMemory, FloatType>;
  readonly binary: BinaryProblem<ReferenceMemory, FloatType, ArithmeticKind>;
}

export type ReferenceKernels = { readonly [Name in OperationName]: Kernel<ReferenceProblems[Name]> };

/** An allocation is an array of bytes. */
export type ReferenceMemory = Uint8Array<ArrayBuffer>;

type Place = Region<ReferenceMemory>;

export class ReferenceDriver implements BackendDriver<ReferenceMemory> {
  readonly name: string = "reference";
  readonly kernels: DriverKernels<ReferenceMemory> = referenceKernels;
  readonly accuracy: Accuracy = correctlyRounded;
  readonly #allocations = new Set<ReferenceMemory>();
  #events: DriverEvents | undefined;

  async open(events: DriverEvents): Promise<DriverDescription> {
    this.#events = events;
    return {
      device: { kind: "cpu", name: "JavaScript, double precision", software: false, details: {} },
      limits: { maxAllocationBytes: 2 ** 31 },
      numerics: {
        nan: "kept",
        infinity: "kept",
        subnormals: "kept",
        signedZero: "kept",
        rounding: "nearest-even",
        deterministic: true,
      },
      accuracy: this.accuracy,
      synchronousReads: true,
    };
  }

  async close(): Promise<void> {
    this.#allocations.clear();
  }

  /** All work is done when it is called for, so there is never anything to wait for. */
  async synchronize(): Promise<void> {}

  alloc(bytes: number): ReferenceMemory {
    const memory = new Uint8Array(bytes);
    this.#allocations.add(memory);
    return memory;
  }

  free(memory: ReferenceMemory): void {
    this.#allocations.delete(memory);
  }

  write(destination: ReferenceMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    destination.set(source, byteOffset);
  }

  /** Copy the bytes now: later calls must not show in them. */
  async read(
    destination: Uint8Array<ArrayBufferLike>,
    source: ReferenceMemory,
    byteOffset: number,
  ): Promise<void> {
    this.readSync(destination, source, byteOffset);
  }

  readSync(destination: Uint8Array<ArrayBufferLike>, source: ReferenceMemory, byteOffset: number): void {
    destination.set(source.subarray(byteOffset, byteOffset + destination.length));
  }

  copy(destination: Place, source: Place): void {
    const end = source.byteOffset + source.byteLength;
    destination.memory.set(source.memory.subarray(source.byteOffset, end), destination.byteOffset);
  }

  fill({ memory, byteOffset, byteLength }: Place, pattern: number): void {
    for (let i = byteOffset; i < byteOffset + byteLength; i++) memory[i] = pattern >>> (8 * (i % 4));
  }

  reservedBytes(): number {
    let bytes = 0;
    for (const memory of this.#allocations) bytes += memory.length;
    return bytes;
  }

  native(memory?: ReferenceMemory): unknown {
    return memory ?? this;
  }

  /** There is no device to lose; this imitates a loss. */
  lose(): void {
    this.#events?.lost("it was asked to go");
  }
}

/** One entry per operation: read the operands, run the formula, store the results. */
export const referenceKernels: ReferenceKernels = {
  gemm: {
    supports: [{ dtype: floatTypes, bias: true, activation: true }],
    run: (problem) => runGemm(problem),
  },
  batchedGemm: {
    supports: [{ dtype: floatTypes, bias: true, activation: true }],
    run: (problem) => runGemm(problem),
  },

  conv2d: {
    supports: [{ dtype: floatTypes, activation: true }],
    run(problem) {
      const { dtype, input, filter, bias, activation, output } = problem;
      const biases = bias && load(bias, dtype);
      const store = activating(activation, storeInto(output, dtype));
      conv2d(problem, load(input, dtype), load(filter, dtype), biases, store);
    },
  },

  attention: {
    supports: [{ dtype: floatTypes }],
    run(problem) {
      const { dtype, q, k, v, out } = problem;
      attention(problem, load(q, dtype), load(k, dtype), load(v, dtype), storeInto(out, dtype));
    },
  },

  reduce: {
    supports: [{ dtype: floatTypes }],
    run(problem) {
      const { dtype, input, output } = problem;
      reduce(problem, load(input, dtype), storeInto(output, dtype));
    },
  },

  unary: {
    supports: [{ dtype: floatTypes }],
    run({ kind, dtype, n, input, output }) {
      const apply = unaryFunctions[kind];
      const values = load(input, dtype);
      const store = storeInto(output, dtype);
      for (let i = 0; i < n; i++) store(i, apply(values[i]!), 0);
    },
  },

  binary: {
    supports: [{ dtype: floatTypes, kind: arithmeticKinds }],
    run({ kind, dtype, shape, n, a, b, output }) {
      const apply = binaryFunctions[kind];
      const first = loadBroadcast(a, shape, dtype);
      const second = loadBroadcast(b, shape, dtype);
      const store = storeInto(output, dtype);
      for (let i = 0; i < n; i++) store(i, apply(first(i), second(i)), 0);
    },
  },
};

function runGemm(problem: Parameters<typeof referenceKernels.gemm.run>[0]): void {
  const { dtype, a, b, c, bias, activation } = problem;
  const store = activating(activation, storeInto(c, dtype));
  gemm(problem, load(a, dtype), load(b, dtype), load(c, dtype), store, bias && load(bias, dtype));
}

/** Returns an `Emit` that applies the activation to each value. */
function activating(activation: Activation | undefined, emit: Emit): Emit {
  if (activation === undefined) return emit;
  const apply = unaryFunctions[activation];
  return (index, value, magnitude) => emit(index, apply(value), magnitude);
}

/** Returns the elements of a region as doubles; none for an empty region. */
export function load({ memory, byteOffset, byteLength }: Place, dtype: FloatType): Float64Array<ArrayBuffer> {
  if (byteLength === 0) return new Float64Array(0);
  const count = byteLength / dtypeBytes[dtype];
  if (dtype === "f32") return new Float64Array(new Float32Array(memory.buffer, byteOffset, count));
  return new Float64Array(decodeFloat16(new Uint16Array(memory.buffer, byteOffset, count)));
}

/** Returns an `Emit` that stores single elements, so that the bytes between them stay unchanged. */
export function storeInto({ memory, byteOffset, byteLength }: Place, dtype: FloatType): Emit {
  const count = byteLength / dtypeBytes[dtype];
  if (dtype === "f32") {
    const elements = new Float32Array(memory.buffer, byteOffset, count);
    return (index, value) => {
      elements[index] = value;
    };
  }
  const elements = new Uint16Array(memory.buffer, byteOffset, count);
  return (index, value) => {
    elements[index] = float16ToBits(value);
  };
}

/** Returns the value of an input that belongs to the i-th element of the output. */
export function loadBroadcast(
  input: BinaryInput<ReferenceMemory>,
  shape: readonly number[],
  dtype: FloatType,
): (i: number) => number {
  if ("scalar" in input) return () => input.scalar;
  const values = load(input.region, dtype);
  const places = offsets(shape.map((extent, axis) => ({ extent, stride: input.strides[axis]! })));
  return (i) => values[places[i]!]!;
}
