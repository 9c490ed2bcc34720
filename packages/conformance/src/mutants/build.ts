import {
  type Accuracy,
  type ComputeBackend,
  createBackend,
  type DriverKernels,
  dtypeBytes,
  type FloatType,
  type Kernel,
  type OperationName,
  type Region,
  type UnaryKind,
} from "@backplane/core";
import {
  correctlyRounded,
  load,
  loadBroadcast,
  ReferenceDriver,
  type ReferenceMemory,
  type ReferenceProblems,
  referenceKernels,
  storeInto,
} from "../reference.js";

type Problem<Name extends OperationName> = ReferenceProblems[Name];
export type Place = Region<ReferenceMemory>;
type Kernels = DriverKernels<ReferenceMemory>;

/** The reference with some kernels replaced, and other units declared of some functions. */
export function withKernels(replaced: Kernels, declared: Accuracy = {}): ComputeBackend {
  class Broken extends ReferenceDriver {
    override readonly name: string = "mutant";
    override readonly kernels: Kernels = { ...referenceKernels, ...replaced };
    override readonly accuracy: Accuracy = {
      unary: { ...correctlyRounded.unary, ...declared.unary },
      binary: { ...correctlyRounded.binary, ...declared.binary },
    };
  }
  return createBackend(new Broken());
}

/** The reference kernel of an operation, on a problem that has been tampered with. */
export function tampered<Name extends OperationName>(
  name: Name,
  change: (problem: Problem<Name>) => Problem<Name>,
): ComputeBackend {
  return withKernels({ [name]: replacement(name, (problem, run) => run(change(problem))) });
}

/** Both operations that take a gemm problem, tampered with. */
export function tamperedProduct(change: (problem: Problem<"gemm">) => Problem<"gemm">): ComputeBackend {
  return replacedProduct((problem, run) => run(change(problem)));
}

/** Replaces a kernel; `run` is that of the reference. */
export function replaced<Name extends OperationName>(
  name: Name,
  body: (problem: Problem<Name>, run: (problem: Problem<Name>) => void) => void,
): ComputeBackend {
  return withKernels({ [name]: replacement(name, body) });
}

export function replacedProduct(
  body: (problem: Problem<"gemm">, run: (problem: Problem<"gemm">) => void) => void,
): ComputeBackend {
  return withKernels({ gemm: replacement("gemm", body), batchedGemm: replacement("batchedGemm", body) });
}

function replacement<Name extends OperationName>(
  name: Name,
  body: (problem: Problem<Name>, run: (problem: Problem<Name>) => void) => void,
): Kernel<Problem<Name>> {
  const kernel = referenceKernels[name] as Kernel<Problem<Name>>;
  return { ...kernel, run: (problem) => body(problem, kernel.run) };
}

/** One unary function replaced by another. `units`, if given, is declared as its accuracy. */
export function replacedFunction(
  kind: UnaryKind,
  apply: (x: number) => number,
  units?: number,
): ComputeBackend {
  const unary = replacement("unary", (problem, run) => {
    if (problem.kind !== kind) return run(problem);
    const store = storeInto(problem.output, problem.dtype);
    for (const [i, x] of load(problem.input, problem.dtype).entries()) store(i, apply(x), 0);
  });
  return withKernels({ unary }, units === undefined ? {} : { unary: { [kind]: [{ units }] } });
}

/** The kernel of binary with another power. */
export function replacedPower(apply: (a: number, b: number) => number): Kernel<Problem<"binary">> {
  return replacement("binary", (problem, run) => {
    if (problem.kind !== "pow") return run(problem);
    const { shape, dtype, n, output } = problem;
    const [a, b] = [loadBroadcast(problem.a, shape, dtype), loadBroadcast(problem.b, shape, dtype)];
    const store = storeInto(output, dtype);
    for (let i = 0; i < n; i++) store(i, apply(a(i), b(i)), 0);
  });
}

/** A copy of a region in a memory of its own, with every element passed through a function. */
export function mapped(region: Place, dtype: FloatType, change: (value: number, i: number) => number): Place {
  const memory = new Uint8Array(region.byteLength);
  const copy = { memory, byteOffset: 0, byteLength: region.byteLength };
  if (region.byteLength === 0) return copy;
  const store = storeInto(copy, dtype);
  for (const [i, value] of load(region, dtype).entries()) store(i, change(value, i), 0);
  return copy;
}

/** A region made of some elements of another, in a memory of its own. */
export function picked(region: Place, dtype: FloatType, places: readonly number[]): Place {
  const memory = new Uint8Array(Math.max(places.length, 1) * dtypeBytes[dtype]);
  const copy = { memory, byteOffset: 0, byteLength: places.length * dtypeBytes[dtype] };
  const values = load(region, dtype);
  const store = storeInto(copy, dtype);
  for (const [i, place] of places.entries()) store(i, values[place]!, 0);
  return copy;
}

/** The region without its first elements. */
export function skipping(region: Place, dtype: FloatType, elements: number): Place {
  const bytes = Math.min(elements * dtypeBytes[dtype], region.byteLength);
  return { ...region, byteOffset: region.byteOffset + bytes, byteLength: region.byteLength - bytes };
}

/**
 * Returns a function that remembers the first contents of each region, as a backend does that prepares weights once.
 */
export function remembering(): (region: Place) => Place {
  const known = new WeakMap<ReferenceMemory, Map<string, Place>>();
  return (region) => {
    const { memory, byteOffset, byteLength } = region;
    const places = known.get(memory) ?? new Map<string, Place>();
    known.set(memory, places);
    const key = `${byteOffset} ${byteLength}`;
    const copy = places.get(key) ?? {
      ...{ memory: memory.slice(byteOffset, byteOffset + byteLength), byteOffset: 0, byteLength },
    };
    places.set(key, copy);
    return copy;
  };
}

/** The region and everything behind it in its allocation. */
export function throughEnd(region: Place, dtype: FloatType): Place {
  const rest = region.memory.length - region.byteOffset;
  return { ...region, byteLength: rest - (rest % dtypeBytes[dtype]) };
}

/** Keeps `bits` explicit bits of the fraction: 10 for TF32 and f16. */
export function truncate(value: number, bits: number): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const spacing = 2 ** (Math.floor(Math.log2(Math.abs(value))) - bits);
  return Math.round(value / spacing) * spacing;
}
