import type { Case, CaseOptions } from "./case.js";

/** Operations each of which needs the one before: they show what a call costs if there is next to nothing to do. */
export function dependentOperations(elements: number, options: CaseOptions = {}): Case {
  return {
    name: `dependent negations of ${elements}, per operation`,
    operation: "small operation",
    dtype: "f32",
    inputs: { a: elements },
    output: { argument: "b", elements },
    cost: { flops: elements, bytes: 8 * elements },
    prepare(backend, { a, b }) {
      const there = { kind: "neg", n: elements, input: a!, output: b! } as const;
      const back = { kind: "neg", n: elements, input: b!, output: a! } as const;
      const call = () => {
        backend.unary(there);
        backend.unary(back);
      };
      return { call, operations: 2 };
    },
    expected: ({ a }, index) => ({ value: -a!.at(index), tolerance: 0 }),
    problem: { operation: "small operation", elements },
    ...options,
  };
}

/** From asking for 4 bytes to having them. */
export function readback(options: CaseOptions = {}): Case {
  return {
    name: "read back 4 bytes",
    operation: "small operation",
    dtype: "f32",
    inputs: { a: 1 },
    output: { argument: "a", elements: 1 },
    cost: { flops: 0, bytes: 4 },
    prepare(backend, { a }) {
      const host = new Float32Array(1);
      return { call: () => backend.copyDtoH(host, a!), host };
    },
    expected: ({ a }) => ({ value: a!.at(0), tolerance: 0 }),
    problem: { operation: "readback" },
    ...options,
  };
}

/** Between the device and host memory that already exists. */
export function transfer(direction: "upload" | "download", bytes: number, options: CaseOptions = {}): Case {
  const elements = bytes / 4;
  return {
    name: `${direction} ${bytes / 2 ** 20} MiB`,
    operation: "transfer",
    dtype: "f32",
    inputs: { source: elements },
    output: { argument: "destination", elements },
    cost: { flops: 0, bytes },
    prepare(backend, { source, destination }, inputs) {
      if (direction === "download") {
        const host = new Float32Array(elements);
        return { call: () => backend.copyDtoH(host, source!), host };
      }
      const host = inputs.source!.toArray(elements);
      return { call: () => backend.copyHtoD(destination!, host) };
    },
    expected: ({ source }, index) => ({ value: source!.at(index), tolerance: 0 }),
    problem: { operation: direction, bytes },
    ...options,
  };
}
