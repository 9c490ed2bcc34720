import {
  dtypeBytes,
  Fill,
  type FloatType,
  type OperationArguments,
  type OperationName,
  type OperationProblems,
  type Region,
  resolveOperation,
} from "@backplane/core";
import type { CpuMemory, CpuOperation } from "#src/kernels/kernel.js";
import { types } from "../types.js";
import type { Workbench } from "../workbench.js";

/** Stands for an operand in arguments; `regions` says what it is. */
type Names = Readonly<Record<string, Region<CpuMemory>>>;

/**
 * Normalises arguments as `createBackend` does. Operands are given by name in `regions`, so the
 * arguments hold anything in their place.
 */
export function resolveProblem<Name extends OperationName>(
  name: Name,
  args: OperationArguments[Name],
  regions: Names,
): OperationProblems<CpuMemory>[Name] | undefined {
  const resolved = resolveOperation<Name, CpuMemory>(name, args, {
    region(argument, _operand, elements, dtype) {
      const region = regions[argument];
      if (region === undefined) throw new TypeError(`no region for ${argument}`);
      const byteLength = elements * dtypeBytes[dtype];
      if (byteLength > region.byteLength) throw new RangeError(`${argument} is too small`);
      return { ...region, byteLength };
    },
  });
  return resolved instanceof Fill ? undefined : resolved;
}

/** Guard bytes on both sides of every output. */
const guard = 64;

export interface Output<Elements = Float32Array> {
  readonly region: Region<CpuMemory>;
  /** The elements, after a check that the bytes around them are as they were. */
  read(): Elements;
}

/** Uploads elements, at an odd element offset. */
export function uploadBits(
  bench: Workbench,
  bits: Float32Array | Uint8Array | Uint16Array | Int32Array | Uint32Array,
): Region<CpuMemory> {
  const offset = 3 * bits.BYTES_PER_ELEMENT;
  const whole = bench.alloc(bits.byteLength + offset);
  new Uint8Array(bench.memory.buffer, whole.memory.byteOffset + offset, bits.byteLength).set(
    new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength),
  );
  return { memory: whole.memory, byteOffset: offset, byteLength: bits.byteLength };
}

/** The same for numbers, rounded to elements of a type. */
export function uploadElements(bench: Workbench, dtype: FloatType, values: Float32Array): Region<CpuMemory> {
  return uploadBits(bench, types[dtype].encode(values));
}

/** An output of some bytes, `offset` after a multiple of 64. */
export function guardedBytes(bench: Workbench, bytes: number, offset: number): Output<ArrayBuffer> {
  const start = guard + offset;
  const whole = bench.alloc(bytes + 2 * guard);
  return {
    region: { memory: whole.memory, byteOffset: start, byteLength: bytes },
    read() {
      const all = bench.bytes(whole);
      all.forEach((byte, i) => {
        if ((i < start || i >= start + bytes) && byte !== 0xff)
          throw new Error(`byte ${i - start} relative to an output of ${bytes} bytes was written`);
      });
      return all.slice(start, start + bytes).buffer;
    },
  };
}

export function guardedOutput(bench: Workbench, dtype: FloatType, count: number): Output {
  const { region, read } = guardedBytes(bench, count * dtypeBytes[dtype], dtypeBytes[dtype]);
  return { region, read: () => types[dtype].decode(read()) };
}

/** Plans and runs one problem. */
export function runOperation<Problem>(
  bench: Workbench,
  operation: CpuOperation<Problem>,
  problem: Problem | undefined,
): void {
  if (problem !== undefined) bench.run(operation.plan(problem, bench.context));
}
