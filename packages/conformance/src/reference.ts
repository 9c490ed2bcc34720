import {
  type Accuracy,
  type BackendDriver,
  type ComputeBackend,
  createBackend,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  inexactBinaryKinds,
  inexactUnaryKinds,
  type Kernel,
} from "@backplane/core";
import type { Place, ReferenceMemory } from "./elements.js";
import { everyOperation } from "./ops/index.js";
import { referenceMemory } from "./ops/operation.js";

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

/** One entry per operation: its formula. */
export const referenceKernels: Required<DriverKernels<ReferenceMemory>> = Object.fromEntries(
  everyOperation.map(({ operation, supports, evaluate }): [string, Kernel<never>] => [
    operation.name,
    { supports, run: (problem) => evaluate(problem, referenceMemory) },
  ]),
) as unknown as Required<DriverKernels<ReferenceMemory>>;
