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

/** The same operations, 1,000 of them in one recording. */
export function recordedOperations(elements: number, options: CaseOptions = {}): Case {
  const operations = 1000;
  return {
    ...dependentOperations(elements, options),
    name: `dependent negations of ${elements}, recorded, per operation`,
    prepare(backend, { a, b }) {
      const step = backend.record(() => {
        for (let i = 0; i < operations; i += 2) {
          backend.unary({ kind: "neg", n: elements, input: a!, output: b! });
          backend.unary({ kind: "neg", n: elements, input: b!, output: a! });
        }
      });
      return { call: () => step.run(), operations, close: () => step.dispose() };
    },
    problem: { operation: "recorded operation", elements, operations },
  };
}

/** The same with a part that varies in every run, as positions do in a decoder: one in ten operations. */
export function varyingOperations(elements: number, options: CaseOptions = {}): Case {
  const operations = 1000;
  return {
    ...dependentOperations(elements, options),
    name: `dependent negations of ${elements}, recorded, a tenth varies, per operation`,
    prepare(backend, { a, b }) {
      const step = backend.record(
        (vary: (part: (values: { readonly round: number }) => void) => void) => {
          for (let i = 0; i < operations; i += 2) {
            backend.unary({ kind: "neg", n: elements, input: a!, output: b! });
            const back = () => backend.unary({ kind: "neg", n: elements, input: b!, output: a! });
            if (i % 10 === 0) vary(back);
            else back();
          }
        },
        { round: 0 },
      );
      let round = 0;
      return {
        call: () => step.run({ values: { round: ++round } }),
        ...{ operations, close: () => step.dispose() },
      };
    },
    problem: { operation: "varying operation", elements },
  };
}

/** Small operations of four kinds that do not need each other, and a wait after many: what the host does for each. */
export function independentOperations(operations: number, options: CaseOptions = {}): Case {
  const elements = 64;
  return {
    name: `${operations} small operations between waits, per operation`,
    operation: "small operation",
    dtype: "f32",
    inputs: { a: elements, b: elements },
    output: { argument: "negated", elements },
    cost: { flops: elements, bytes: 8 * elements },
    prepare(backend, { a, b, negated }) {
      const sum = backend.alloc(4 * elements);
      const product = backend.alloc(4 * elements);
      const total = backend.alloc(4 * elements);
      // Arguments are made for each call, as callers do.
      const call = () => {
        for (let i = 0; i < operations; i += 4) {
          backend.unary({ kind: "neg", n: elements, input: a!, output: negated! });
          backend.binary({ kind: "add", n: elements, a: a!, b: b!, output: sum });
          backend.gemm({ m: 4, n: 4, k: 4, a: a!, b: b!, c: product });
          backend.reduce({ kind: "sum", shape: [8, 8], axes: [1], input: a!, output: total });
        }
        return backend.synchronize();
      };
      const close = () => {
        for (const handle of [sum, product, total]) backend.free(handle);
      };
      return { call, operations, close };
    },
    expected: ({ a }, index) => ({ value: -a!.at(index), tolerance: 0 }),
    problem: { operation: "independent operations", elements, operations },
    ...options,
  };
}

/** From one operation to knowing that it is done. */
export function waitAfterOperation(options: CaseOptions = {}): Case {
  const elements = 1024;
  return {
    ...dependentOperations(elements, options),
    name: `synchronize after one negation of ${elements}`,
    prepare(backend, { a, b }) {
      const call = () => {
        backend.unary({ kind: "neg", n: elements, input: a!, output: b! });
        return backend.synchronize();
      };
      return { call };
    },
    problem: { operation: "synchronize", elements },
  };
}

/** From asking for bytes to having them. */
export function readback(bytes: number, options: CaseOptions = {}): Case {
  const elements = bytes / 4;
  return {
    name: `read back ${bytes < 1024 ? `${bytes} bytes` : `${bytes / 1024} KiB`}`,
    operation: "small operation",
    dtype: "f32",
    inputs: { a: elements },
    output: { argument: "a", elements },
    cost: { flops: 0, bytes },
    prepare(backend, { a }) {
      const host = new Float32Array(elements);
      return { call: () => backend.copyDtoH(host, a!), host };
    },
    expected: ({ a }, index) => ({ value: a!.at(index), tolerance: 0 }),
    problem: { operation: "readback", bytes },
    ...options,
  };
}

/** The same after a recorded step that leaves the bytes as they were. */
export function readbackAfterStep(options: CaseOptions = {}): Case {
  const operations = 10;
  return {
    ...readback(4, options),
    name: "read back 4 bytes after a recorded step",
    prepare(backend, { a }) {
      const host = new Float32Array(1);
      const step = backend.record(() => {
        for (let i = 0; i < operations; i++) backend.unary({ kind: "neg", n: 1, input: a!, output: a! });
      });
      const call = () => {
        step.run();
        return backend.copyDtoH(host, a!);
      };
      return { call, host, close: () => step.dispose() };
    },
    problem: { operation: "readback after a step", operations },
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
