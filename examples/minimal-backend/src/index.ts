import {
  type BackendDriver,
  type BackendProvider,
  type BinaryInput,
  createBackend,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  type GemmProblem,
  type Region,
} from "@backplane/core";

/** The driver's memory for one allocation: here an array, on other devices a buffer or an address. */
type Memory = Uint8Array<ArrayBuffer>;

const description: DriverDescription = {
  device: { kind: "cpu", name: "JavaScript", software: false, details: {} },
  limits: { maxAllocationBytes: 2 ** 30 },
  // Each promise is tested. If in doubt declare the weaker value: see capabilities.ts in core.
  numerics: {
    nan: "kept",
    infinity: "kept",
    subnormals: "kept",
    signedZero: "kept",
    rounding: "nearest-even",
    deterministic: true,
  },
  // Optional. Units in the last place, 0.5 for correct rounding: see accuracy.ts in core.
  accuracy: { unary: { sqrt: [{ units: 0.5 }], exp: [{ units: 0.5 }] }, binary: { add: 0.5, mul: 0.5 } },
};

export class MinimalDriver implements BackendDriver<Memory> {
  readonly name = "minimal";
  readonly kernels: DriverKernels<Memory> = kernels;
  #reserved = 0;

  /**
   * Find the device and describe it. Throw `UNSUPPORTED` with the reason if there is none. If it is lost
   * later, call `events.lost`; this memory is never lost.
   */
  async open(_events: DriverEvents): Promise<DriverDescription> {
    return description;
  }

  /** Allocations end with the device: nobody frees them first. `open` may follow, after a loss. */
  async close(): Promise<void> {
    this.#reserved = 0;
  }

  /** Everything here is done when it is asked for; a device with a queue waits for it. */
  async synchronize(): Promise<void> {}

  /** New arrays hold zeros; memory that is reused must be cleared if `zero` asks for it. */
  alloc(bytes: number, _zero: boolean): Memory {
    this.#reserved += bytes;
    return new Uint8Array(bytes);
  }

  free(memory: Memory): void {
    this.#reserved -= memory.length;
  }

  write(destination: Memory, byteOffset: number, source: Uint8Array): void {
    destination.set(source, byteOffset);
  }

  async read(destination: Uint8Array, source: Memory, byteOffset: number): Promise<void> {
    destination.set(source.subarray(byteOffset, byteOffset + destination.length));
  }

  copy(destination: Region<Memory>, source: Region<Memory>): void {
    const end = source.byteOffset + source.byteLength;
    destination.memory.set(source.memory.subarray(source.byteOffset, end), destination.byteOffset);
  }

  fill({ memory, byteOffset, byteLength }: Region<Memory>, pattern: number): void {
    for (let i = byteOffset; i < byteOffset + byteLength; i++) memory[i] = pattern >>> (8 * (i % 4));
  }

  reservedBytes(): number {
    return this.#reserved;
  }

  native(memory?: Memory): unknown {
    return memory;
  }
}

type Functions<Inputs extends number[]> = Record<string, (...inputs: Inputs) => number>;
const unary: Functions<[number]> = { neg: (x) => -x, abs: Math.abs, sqrt: Math.sqrt, exp: Math.exp };
const binary: Functions<[number, number]> = { add: (a, b) => a + b, mul: (a, b) => a * b, max: Math.max };

/** One entry per operation. An operation without an entry throws `UNSUPPORTED`, and the suite skips its laws. */
const kernels: DriverKernels<Memory> = {
  gemm: { supports: [{ dtype: ["f32"] }], run: gemm },
  batchedGemm: { supports: [{ dtype: ["f32"] }], run: gemm },
  unary: {
    supports: [{ dtype: ["f32"], kind: Object.keys(unary) }],
    run({ kind, n, input, output }) {
      const [from, to] = [elements(input), elements(output)];
      for (let i = 0; i < n; i++) to[i] = unary[kind]!(from[i]!);
    },
  },
  binary: {
    supports: [{ dtype: ["f32"], kind: Object.keys(binary) }],
    run({ kind, n, shape, a, b, output }) {
      const [first, second, to] = [reader(a, shape), reader(b, shape), elements(output)];
      for (let i = 0; i < n; i++) to[i] = binary[kind]!(first(i), second(i));
    },
  },
};

/** The elements of a region; it lies at a multiple of their size. */
function elements({ memory, byteOffset, byteLength }: Region<Memory>): Float32Array {
  return new Float32Array(memory.buffer, byteOffset, byteLength / 4);
}

/** C = alpha op(A) op(B) + beta C for each of the batch. If beta is 0, C may hold NaN: do not read it. */
function gemm({ m, n, k, alpha, beta, transA, transB, lda, ldb, ldc, ...rest }: GemmProblem<Memory>): void {
  // If k is 0, the regions of A and B are empty and must not be read.
  const [a, b, c] = [k > 0 ? elements(rest.a) : [], k > 0 ? elements(rest.b) : [], elements(rest.c)];
  for (let matrix = 0; matrix < rest.batch; matrix++)
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        let sum = 0;
        for (let j = 0; j < k; j++) {
          const x = a[matrix * rest.strideA + (transA ? j * lda + row : row * lda + j)]!;
          sum += x * b[matrix * rest.strideB + (transB ? column * ldb + j : j * ldb + column)]!;
        }
        const place = matrix * rest.strideC + row * ldc + column;
        c[place] = beta === 0 ? alpha * sum : alpha * sum + beta * c[place]!;
      }
}

/** The element of an operand that belongs to place i of the output; a stride of 0 repeats. */
function reader(input: BinaryInput<Memory>, shape: readonly number[]): (i: number) => number {
  if ("scalar" in input) return () => input.scalar;
  const from = elements(input.region);
  return (i) => {
    let [place, rest] = [0, i];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      place += (rest % shape[axis]!) * input.strides[axis]!;
      rest = Math.floor(rest / shape[axis]!);
    }
    return from[place]!;
  };
}

/** Offers the backend to a `BackendRegistry`, and to the conformance suite. */
export const minimal: BackendProvider = {
  name: "minimal",
  probe: async () => ({ available: true, device: description.device }),
  create: () => createBackend(new MinimalDriver()),
};

export default minimal;
